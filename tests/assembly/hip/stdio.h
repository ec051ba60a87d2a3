// Of the C library, what a probe's host side calls: this folder serves compilers without one.
#pragma once
#ifdef __AMDGCN__
extern "C" int printf(const char* format, ...);
extern "C" int fprintf(void* file, const char* format, ...);
extern "C" void* stderr;
#else
#include_next <stdio.h>
#endif
