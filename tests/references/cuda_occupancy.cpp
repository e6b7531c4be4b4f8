// Writes cuda_occupancy.json: what NVIDIA's own occupancy calculator says, for tests/compiler/test_occupancy.py to compare with.
//
//     g++ -I <CUDA toolkit>/include cuda_occupancy.cpp -o reference && ./reference > cuda_occupancy.json
//
// cuda_occupancy.h comes with the CUDA toolkit (and with the package nvidia-cuda-runtime); made with 13.0.
// A row: compute capability, registers per thread, bytes of dynamic shared memory, warps, named barriers, blocks per SM,
// and a mask of what limits them (1 warps, 2 registers, 4 shared memory, 8 blocks, 16 barriers).
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <cuda_occupancy.h>

struct Gpu {
  int major, minor, threads_per_sm;
  size_t shared_per_sm, shared_per_block, reserved;
};

static uint32_t state = 12345;

template <size_t count>
static int pick(const int (&values)[count]) {
  state = state * 1664525u + 1013904223u;
  return values[(state >> 16) % count];
}

int main() {
  const Gpu gpus[] = {
      {7, 5, 1024, 65536, 65536, 0},        {8, 0, 2048, 167936, 166912, 1024},
      {8, 6, 1536, 102400, 101376, 1024},   {8, 9, 1536, 102400, 101376, 1024},
      {9, 0, 2048, 233472, 232448, 1024},   {10, 0, 2048, 233472, 232448, 1024},
      {10, 3, 2048, 233472, 232448, 1024},  {12, 0, 1536, 102400, 101376, 1024},
  };
  const int registers[] = {16, 24, 32, 33, 40, 57, 64, 72, 80, 93, 96, 128, 129, 168, 200, 255};
  const int warp_counts[] = {1, 2, 4, 5, 8, 16, 32};
  const int shared[] = {0,     1,     1024,   16384,  24576,  24592,  32768, 49152,
                        65536, 99328, 101376, 131072, 166912, 200000, 232448};
  const int barrier_counts[] = {0, 1, 2, 16};
  bool first = true;
  printf("[");
  for (const Gpu &gpu : gpus) {
    for (int sample = 0; sample < 130; sample++) {
      const int regs = pick(registers), warps = pick(warp_counts), bytes = pick(shared),
                barriers = pick(barrier_counts);
      cudaOccDeviceProp device{};
      device.computeMajor = gpu.major;
      device.computeMinor = gpu.minor;
      device.maxThreadsPerBlock = 1024;
      device.maxThreadsPerMultiprocessor = gpu.threads_per_sm;
      device.regsPerBlock = device.regsPerMultiprocessor = 65536;
      device.warpSize = 32;
      device.sharedMemPerBlock = 49152;
      device.sharedMemPerMultiprocessor = gpu.shared_per_sm;
      device.numSms = 100;
      device.sharedMemPerBlockOptin = gpu.shared_per_block;
      device.reservedSharedMemPerBlock = gpu.reserved;
      cudaOccFuncAttributes kernel{};
      kernel.maxThreadsPerBlock = 1024;
      kernel.numRegs = regs;
      kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
      kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
      kernel.maxDynamicSharedSizeBytes = gpu.shared_per_block;
      kernel.numBlockBarriers = barriers;
      cudaOccDeviceState unconfigured{};
      unconfigured.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
      cudaOccResult result{};
      if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &unconfigured,
                                                  warps * 32, bytes) != CUDA_OCC_SUCCESS)
        continue;
      printf("%s[\"%d%d\",%d,%d,%d,%d,%d,%u]", first ? "" : ",\n", gpu.major, gpu.minor, regs, bytes,
             warps, barriers, result.activeBlocksPerMultiprocessor, result.limitingFactors);
      first = false;
    }
  }
  printf("]\n");
}
