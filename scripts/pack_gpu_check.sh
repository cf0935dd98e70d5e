#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds gpucheck for a GPU on a machine without one and packs what another machine needs to run it.
#
#   scripts/pack_gpu_check.sh [--arch LIST] [--out DIR] [--build DIR]
#
#   --arch LIST   CUDA architectures (90-real: H100 and H200; 80-real: A100)
#   --out DIR     the pack: gpucheck and gpucheck_nccl, stripped, and in lib/ the libraries that a machine with a GPU may lack. Default:
#                 build/gpu_pack. Beside it DIR.tar.gz, the same in a third of the size: what is carried
#   --build DIR   build folder (build/gpu), configured with BORA_NATIVE=OFF: the other machine's processor is another one
#
# Not packed: CUDA's runtime, cuDNN, cuBLAS and NCCL, which are large; scripts/gpu_check.sh finds them in /usr/local/cuda or in
# PyTorch's wheels. On the other machine, in a copy of this repository: scripts/gpu_check.sh --build DIR.tar.gz
# Debian 12's glibc is older than that of most machines with a GPU, which is what a carried program needs.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "pack_gpu_check.sh: $1" >&2; exit 2; }
arch=90-real out=$root/build/gpu_pack build=$root/build/gpu
while [ $# -gt 0 ]; do
  case $1 in
    --arch | --out | --build)
      [ $# -ge 2 ] || fail "$1 wants a value"
      case $1 in --arch) arch=$2 ;; --out) out=$2 ;; --build) build=$2 ;; esac
      shift 2 ;;
    -h | --help) sed -n '3,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail "unknown option '$1' (--help lists them)" ;;
  esac
done
command -v nvcc >/dev/null || PATH=/usr/local/cuda/bin:$PATH
command -v nvcc >/dev/null || fail "no nvcc on PATH or in /usr/local/cuda/bin"
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBORA_CUDA=ON -DBORA_NATIVE=OFF -DBORA_TESTS=OFF \
  -DCMAKE_CUDA_ARCHITECTURES="$arch" >/dev/null
cmake --build "$build" --target gpucheck gpucheck_nccl

rm -rf "$out"
mkdir -p "$out/lib"
for program in gpucheck gpucheck_nccl; do strip -o "$out/$program" "$build/bin/$program"; done
# Everything but the C library's own and the driver's; the large ones of CUDA stay away.
ldd "$out/gpucheck" "$out/gpucheck_nccl" | awk '$3 ~ /^\// { print $3 }' | while IFS= read -r path; do
  case $(basename "$path") in
    libc.so* | libm.so* | ld-linux* | libpthread.so* | libdl.so* | librt.so* | libcu* | libnccl* | libnv*) ;;
    *) cp -L "$path" "$out/lib/" ;;
  esac
done
strip "$out"/lib/*.so* 2>/dev/null || true
echo "pack_gpu_check.sh: $out"
tar -C "$(dirname "$out")" -czf "$out.tar.gz" "$(basename "$out")"
du -ch --apparent-size "$out"/gpucheck* "$out"/lib/*
du -h --apparent-size "$out.tar.gz"
