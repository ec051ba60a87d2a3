"""AMD CDNA matrix cores: MFMA, SMFMAC and scaled MFMA, register by register."""
