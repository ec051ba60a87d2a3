#pragma once
#ifdef __AMDGCN__
extern "C" int strncmp(const char* a, const char* b, unsigned long count);
#else
#include_next <string.h>
#endif
