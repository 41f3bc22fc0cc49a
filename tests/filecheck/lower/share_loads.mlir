// RUN: %opt -p share-loads %s | filecheck %s

// Tiles of a mesh row load the same rows, tiles of a mesh column the same columns: one of each loads them and sends them on. The last
// panel is loaded as the others are: it is one more of the loop's.

func.func @gemm(%p0: tensor<65536xbf16>, %p1: tensor<65536xbf16>, %r0: tensor<65536xbf16>) attributes {xla.entry, xla.mesh = array<i64: 4, 4>} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %step = %c0 to %c1 step %c1 {
    %sums = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    scf.for %k = %c0 to %c3 step %c1 {
      %0 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile floordiv 4 * 32768), domain: tile in [0, 15], k in [0, 2]">(%tile, %k)
      %left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%left : !tx8.buffer) slot(%p0 : tensor<65536xbf16>) offset(%0 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      %1 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 32768 + tile mod 4 * 128), domain: tile in [0, 15], k in [0, 2]">(%tile, %k)
      %right = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%right : !tx8.buffer) slot(%p1 : tensor<65536xbf16>) offset(%1 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      %go = arith.minsi %k, %c1 : index
      tx8.NE_gemm dst(%sums : !tx8.buffer) left(%left : !tx8.buffer) right(%right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%go : index) fp32 from bf16 nearest_even
    }
    %2 = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile floordiv 4 * 32768 + 384), domain: tile in [0, 15]">(%tile)
    %last_left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%last_left : !tx8.buffer) slot(%p0 : tensor<65536xbf16>) offset(%2 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
    %3 = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile mod 4 * 128 + 98304), domain: tile in [0, 15]">(%tile)
    %last_right = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%last_right : !tx8.buffer) slot(%p1 : tensor<65536xbf16>) offset(%3 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
    %result = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.NE_gemm dst(%result : !tx8.buffer) left(%last_left : !tx8.buffer) right(%last_right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(1) bf16 from bf16 nearest_even
  }
  func.return
}

// CHECK:      func.func @gemm
// CHECK:        [[ROWS:%[0-9]+]] = "spm.alloc"() <{size = 8192 : i64, copies = 32 : i64}>
// CHECK:        [[COLUMNS:%[0-9]+]] = "spm.alloc"() <{size = 8192 : i64, copies = 32 : i64}>
// CHECK:        tx8.KC_wait engines(63)
// CHECK:        tx8.KC_barrier
// CHECK:        scf.for %step
// CHECK:          scf.for %k
// CHECK:            tx8.KC_wait engines(20)
// CHECK:            [[LATER:%[0-9]+]] = "spm.turn"([[ROWS]],
// CHECK-NEXT:       tx8.TDMA_memset dst([[LATER]] : !tx8.buffer) value(0) n(16)
// CHECK:            scf.if
// CHECK:              tx8.RDMA_load dst([[LATER]] : !tx8.buffer) slot(%p0
// CHECK:            tx8.KC_wait engines(32)
// CHECK-NEXT:       tx8.KC_barrier
// CHECK:            [[NEXT:%[0-9]+]] = "spm.turn"([[ROWS]],
// CHECK:            scf.if
// CHECK:              tx8.DTE_multicast dst([[NEXT]] : !tx8.buffer) src([[NEXT]] : !tx8.buffer) n(4096)
// CHECK:            %left = "spm.turn"([[ROWS]],
// CHECK:            %right = "spm.turn"([[COLUMNS]],
// CHECK-NOT:        tx8.RDMA_load
// CHECK:            tx8.NE_gemm {{.*}} left(%left : !tx8.buffer) right(%right : !tx8.buffer)
// CHECK:          } {is_pipelined}
// CHECK:          tx8.KC_barrier
// CHECK:          tx8.NE_gemm {{.*}} bf16 from bf16

// -----

// Both steps multiply the same rows: their three panels have a slot each, and are loaded and sent in the first step only.

func.func @rows_stay(%p0: tensor<49152xbf16>, %p1: tensor<98304xbf16>, %r0: tensor<131072xbf16>) attributes {xla.entry, xla.mesh = array<i64: 4, 4>} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  scf.for %step = %c0 to %c2 step %c1 {
    %sums = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    scf.for %k = %c0 to %c3 step %c1 {
      %0 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile floordiv 4 * 24576), domain: tile in [0, 15], k in [0, 2]">(%tile, %k)
      %left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%left : !tx8.buffer) slot(%p0 : tensor<49152xbf16>) offset(%0 : index) count(64) s1(192) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      %1 = xla.apply_indexing #xla.indexing_map<"(tile, step, k) -> (k * 65536 + step * 512 + tile mod 4 * 128), domain: tile in [0, 15], step in [0, 1], k in [0, 2]">(%tile, %step, %k)
      %right = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%right : !tx8.buffer) slot(%p1 : tensor<98304xbf16>) offset(%1 : index) count(64) s1(512) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      %go = arith.minsi %k, %c1 : index
      tx8.NE_gemm dst(%sums : !tx8.buffer) left(%left : !tx8.buffer) right(%right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%go : index) fp32 from bf16 nearest_even
    }
  }
  func.return
}

// CHECK:      func.func @rows_stay
// CHECK:        [[ROWS:%[0-9]+]] = "spm.alloc"() <{size = 8192 : i64, copies = 3 : i64}>
// CHECK:        [[COLUMNS:%[0-9]+]] = "spm.alloc"() <{size = 8192 : i64, copies = 32 : i64}>
// CHECK:        scf.for %step
// CHECK:          scf.for %k
// CHECK:            [[LATER:%[0-9]+]] = "spm.turn"([[ROWS]],
// CHECK:            [[NEW:%[0-9]+]] = arith.cmpi slt, [[PANEL:%[0-9]+]], %{{.*}} : index
// CHECK-NEXT:       scf.if [[NEW]] {
// CHECK-NEXT:         tx8.TDMA_memset dst([[LATER]] : !tx8.buffer) value(0) n(16)

// -----

// In a function that does not follow the mesh each tile loads for itself.

func.func @apart(%p0: tensor<65536xbf16>, %r0: tensor<65536xbf16>) attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %step = %c0 to %c1 step %c1 {
    %sums = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    scf.for %k = %c0 to %c3 step %c1 {
      %0 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile * 8192), domain: tile in [0, 15], k in [0, 2]">(%tile, %k)
      %left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%left : !tx8.buffer) slot(%p0 : tensor<65536xbf16>) offset(%0 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      tx8.NE_gemm dst(%sums : !tx8.buffer) left(%left : !tx8.buffer) right(%left : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(0) accumulate(0) fp32 from bf16 nearest_even
    }
  }
  func.return
}

// CHECK:      func.func @apart
// CHECK-NOT:    tx8.DTE_multicast
// CHECK-NOT:    tx8.KC_barrier
