/* Has this processor the instruction set the library is built for? Compiled for the baseline, so that asking is safe. */
#ifndef TX8_LEVEL
#define TX8_LEVEL 0
#endif

#if TX8_LEVEL > 0
__attribute__((target("arch=x86-64")))
#endif
__attribute__((visibility("default"))) int tx8_supported(void) {
    int ok = 1;
#if TX8_LEVEL >= 2
    ok = ok && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("popcnt");
#endif
#if TX8_LEVEL >= 3
    ok = ok && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
#endif
#if TX8_LEVEL >= 4
    ok = ok && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return ok;
}
