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

// -----

// The tail of a product, which tiles of the last mesh column have, is multiplied in the same turns with the same rows, and is loaded for
// that column once. Its buffers that TDMA fills are as many as slots. A branch that every tile takes is taken, also inside of another one.

func.func @tail(%p0: tensor<65536xbf16>, %p1: tensor<66048xbf16>, %r0: tensor<65792xbf16>) attributes {xla.entry, xla.mesh = array<i64: 4, 4>} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %step = %c0 to %c1 step %c1 {
    %rows = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (tile floordiv 4 * -64 + 256), domain: tile in [0, 15]">, kind = "min", lower = 0 : i64, upper = 64 : i64}> : (index) -> index
    %columns = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (tile mod 4 * -1 + 4), domain: tile in [0, 15]">, kind = "min", lower = 0 : i64, upper = 1 : i64}> : (index) -> index
    %any = arith.cmpi sgt, %columns, %c0 : index
    scf.if %any {
      %some = arith.cmpi sgt, %rows, %c0 : index
      scf.if %some {
        %sums = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
        scf.for %k = %c0 to %c3 step %c1 {
          %0 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile floordiv 4 * 32768), domain: tile in [0, 15], k in [0, 2]">(%tile, %k)
          %left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
          tx8.RDMA_load dst(%left : !tx8.buffer) slot(%p0 : tensor<65536xbf16>) offset(%0 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
          %1 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 32896 + tile mod 4 * 128), domain: tile in [0, 15], k in [0, 2]">(%tile, %k)
          %right = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
          tx8.RDMA_load dst(%right : !tx8.buffer) slot(%p1 : tensor<66048xbf16>) offset(%1 : index) count(64) s1(257) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
          %go = arith.minsi %k, %c1 : index
          tx8.NE_gemm dst(%sums : !tx8.buffer) left(%left : !tx8.buffer) right(%right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%go : index) fp32 from bf16 nearest_even
        }
      }
    }
  }
  scf.for %step2 = %c0 to %c1 step %c1 {
    %own = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (tile mod 4 - 2), domain: tile in [0, 15]">, kind = "min", lower = 0 : i64, upper = 1 : i64}> : (index) -> index
    %has = arith.cmpi sgt, %own, %c0 : index
    scf.if %has {
      %sums2 = "spm.alloc"() <{size = 1024 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      scf.for %k2 = %c0 to %c3 step %c1 {
        %2 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile floordiv 4 * 32768), domain: tile in [0, 15], k in [0, 2]">(%tile, %k2)
        %same = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
        tx8.RDMA_load dst(%same : !tx8.buffer) slot(%p0 : tensor<65536xbf16>) offset(%2 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
        %3 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 32896 + 512), domain: tile in [0, 15], k in [0, 2]">(%tile, %k2)
        %column = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
        tx8.RDMA_load dst(%column : !tx8.buffer) slot(%p1 : tensor<66048xbf16>) offset(%3 : index) count(1) s1(257) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
        %wide = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
        tx8.TDMA_gatherScatter dst(%wide : !tx8.buffer) src(%column : !tx8.buffer) run_bytes(2) rs1(2) rn1(64) rs2(0) rn2(1) rs3(0) rn3(1) ws1(8) wn1(64) ws2(0) wn2(1) ws3(0) wn3(1) bf16
        %go2 = arith.minsi %k2, %c1 : index
        tx8.NE_gemm dst(%sums2 : !tx8.buffer) left(%same : !tx8.buffer) right(%wide : !tx8.buffer) psum(%sums2 : !tx8.buffer) rows(64) columns(1) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%go2 : index) fp32 from bf16 nearest_even
      }
    }
  }
  func.return
}

// CHECK:      func.func @tail
// CHECK:        [[T:%[0-9]+]] = "spm.alloc"() <{size = 128 : i64, copies = 32 : i64}>
// CHECK:        scf.for %step
// CHECK:          [[HAS:%[a-z0-9_]+]] = arith.cmpi sgt, %own
// CHECK:          scf.for %k
// CHECK:            scf.if [[HAS_LATER:%[a-z0-9_]+]] {
// CHECK:              tx8.RDMA_load {{.*}} slot(%p1 {{.*}} count(1)
// CHECK:            tx8.KC_barrier
// CHECK:            tx8.NE_gemm {{.*}} left([[LEFT:%[a-z0-9_]+]] : !tx8.buffer) {{.*}} columns(64)
// CHECK:            scf.if [[HAS]] {
// CHECK-NEXT:         tx8.TDMA_gatherScatter
// CHECK-NEXT:         tx8.NE_gemm {{.*}} left([[LEFT]] : !tx8.buffer) {{.*}} columns(1)
// CHECK:            }{is_tail}
// CHECK-NOT:    scf.for %step2

// The tail has rows for the first eight tiles only, of which not all load for a mesh column: it stays as it is.

func.func @tail_of_some_rows(%p0: tensor<65536xbf16>, %p1: tensor<66048xbf16>, %r0: tensor<65792xbf16>) attributes {xla.entry, xla.mesh = array<i64: 4, 4>} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %step = %c0 to %c1 step %c1 {
    %rows = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (tile floordiv 4 * -64 + 256), domain: tile in [0, 15]">, kind = "min", lower = 0 : i64, upper = 64 : i64}> : (index) -> index
    %columns = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (tile mod 4 * -1 + 4), domain: tile in [0, 15]">, kind = "min", lower = 0 : i64, upper = 1 : i64}> : (index) -> index
    %any = arith.cmpi sgt, %columns, %c0 : index
    scf.if %any {
      %some = arith.cmpi sgt, %rows, %c0 : index
      scf.if %some {
        %sums = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
        scf.for %k = %c0 to %c3 step %c1 {
          %0 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile floordiv 4 * 32768), domain: tile in [0, 15], k in [0, 2]">(%tile, %k)
          %left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
          tx8.RDMA_load dst(%left : !tx8.buffer) slot(%p0 : tensor<65536xbf16>) offset(%0 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
          %1 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 32896 + tile mod 4 * 128), domain: tile in [0, 15], k in [0, 2]">(%tile, %k)
          %right = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
          tx8.RDMA_load dst(%right : !tx8.buffer) slot(%p1 : tensor<66048xbf16>) offset(%1 : index) count(64) s1(257) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
          %go = arith.minsi %k, %c1 : index
          tx8.NE_gemm dst(%sums : !tx8.buffer) left(%left : !tx8.buffer) right(%right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%go : index) fp32 from bf16 nearest_even
        }
      }
    }
  }
  scf.for %step2 = %c0 to %c1 step %c1 {
    %own = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (tile * -1 + 8), domain: tile in [0, 15]">, kind = "min", lower = 0 : i64, upper = 1 : i64}> : (index) -> index
    %has = arith.cmpi sgt, %own, %c0 : index
    scf.if %has {
      %sums2 = "spm.alloc"() <{size = 1024 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      scf.for %k2 = %c0 to %c3 step %c1 {
        %2 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile floordiv 4 * 32768), domain: tile in [0, 15], k in [0, 2]">(%tile, %k2)
        %same = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
        tx8.RDMA_load dst(%same : !tx8.buffer) slot(%p0 : tensor<65536xbf16>) offset(%2 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
        %3 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 32896 + 512), domain: tile in [0, 15], k in [0, 2]">(%tile, %k2)
        %column = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
        tx8.RDMA_load dst(%column : !tx8.buffer) slot(%p1 : tensor<66048xbf16>) offset(%3 : index) count(1) s1(257) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
        %wide = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
        tx8.TDMA_gatherScatter dst(%wide : !tx8.buffer) src(%column : !tx8.buffer) run_bytes(2) rs1(2) rn1(64) rs2(0) rn2(1) rs3(0) rn3(1) ws1(8) wn1(64) ws2(0) wn2(1) ws3(0) wn3(1) bf16
        %go2 = arith.minsi %k2, %c1 : index
        tx8.NE_gemm dst(%sums2 : !tx8.buffer) left(%same : !tx8.buffer) right(%wide : !tx8.buffer) psum(%sums2 : !tx8.buffer) rows(64) columns(1) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%go2 : index) fp32 from bf16 nearest_even
      }
    }
  }
  func.return
}

// CHECK:      func.func @tail_of_some_rows
// CHECK:        tx8.DTE_multicast
// CHECK:        scf.for %step
// CHECK-NOT:    is_tail
// CHECK:        scf.for %step2
// CHECK-NOT:    tx8.DTE_multicast

// -----

// A panel of columns is eight times as large as one of rows: the tiles at both ends of a mesh column load and send a half each.

func.func @halves(%p0: tensor<65536xbf16>, %p1: tensor<524288xbf16>, %r0: tensor<524288xbf16>) attributes {xla.entry, xla.mesh = array<i64: 4, 4>} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %step = %c0 to %c1 step %c1 {
    %sums = "spm.alloc"() <{size = 131072 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    scf.for %k = %c0 to %c4 step %c1 {
      %0 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile floordiv 4 * 32768), domain: tile in [0, 15], k in [0, 3]">(%tile, %k)
      %left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%left : !tx8.buffer) slot(%p0 : tensor<65536xbf16>) offset(%0 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      %1 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 262144 + tile mod 4 * 1024), domain: tile in [0, 15], k in [0, 3]">(%tile, %k)
      %right = "spm.alloc"() <{size = 65536 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%right : !tx8.buffer) slot(%p1 : tensor<524288xbf16>) offset(%1 : index) count(64) s1(2048) n1(64) s2(64) n2(8) s3(0) n3(1) bf16
      tx8.NE_gemm dst(%sums : !tx8.buffer) left(%left : !tx8.buffer) right(%right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(512) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%k : index) fp32 from bf16 nearest_even
    }
  }
  func.return
}

// CHECK:      func.func @halves
// CHECK:        xla.apply_indexing #xla.indexing_map<"(i) -> (i floordiv 3)
// CHECK:        [[HALF:%[0-9]+]] = xla.apply_indexing #xla.indexing_map<"(i) -> (i floordiv 3)
// CHECK:          scf.for %k
// CHECK:              tx8.RDMA_load {{.*}} slot(%p0 {{.*}} count(64) s1(256) n1(32)
// CHECK:              [[DDR:%[0-9]+]] = arith.muli [[HALF]], {{.*}}
// CHECK:              [[AT:%[0-9]+]] = arith.addi {{.*}}, [[DDR]]
// CHECK:              tx8.RDMA_load {{.*}} slot(%p1 {{.*}} offset([[AT]] : index) count(64) s1(2048) n1(64) s2(64) n2(4)
// CHECK:              tx8.DTE_multicast {{.*}} n(2048)
// CHECK:              [[PART:%[0-9]+]] = "spm.offset"
// CHECK:              tx8.DTE_multicast dst([[PART]] : !tx8.buffer) src([[PART]] : !tx8.buffer) n({{[^)]*}}) tiles
