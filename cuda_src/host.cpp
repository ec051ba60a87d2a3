// The host build of one domain: the C ABI over the headers that the GPU runs.
#include GPUEMU_HOST_HEADER
