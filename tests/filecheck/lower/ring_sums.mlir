// RUN: %opt -p ring-sums %s --split-input-file | filecheck %s

// Of twelve panels a tile has made three. It multiplies these for two pieces of each other tile's columns, and then for its own, and
// sends each piece of the others to the next tile of its mesh row, in two parts, while it computes the piece behind.

func.func @ring(%p0: tensor<98304xbf16>, %r0: tensor<131072xbf16>) attributes {xla.entry, xla.ring_sums, xla.mesh = array<i64: 4, 4>} {
  %t = xla.allocate_scratch : tensor<196608xbf16>
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c11 = arith.constant 11 : index
  scf.for %step = %c0 to %c2 step %c1 {
    %sums = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    scf.for %k = %c0 to %c11 step %c1 {
      %0 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile floordiv 4 * 98304), domain: tile in [0, 15], k in [0, 10]">(%tile, %k)
      %left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%left : !tx8.buffer) slot(%t : tensor<196608xbf16>) offset(%0 : index) count(64) s1(768) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      %1 = xla.apply_indexing #xla.indexing_map<"(tile, step, k) -> (k * 65536 + tile mod 4 * 256 + step * 128), domain: tile in [0, 15], step in [0, 1], k in [0, 10]">(%tile, %step, %k)
      %right = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%right : !tx8.buffer) slot(%p0 : tensor<98304xbf16>) offset(%1 : index) count(64) s1(512) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      %go = arith.minsi %k, %c1 : index
      tx8.NE_gemm dst(%sums : !tx8.buffer) left(%left : !tx8.buffer) right(%right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%go : index) fp32 from bf16 nearest_even
    }
    %2 = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile floordiv 4 * 98304 + 1408), domain: tile in [0, 15]">(%tile)
    %last_left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%last_left : !tx8.buffer) slot(%t : tensor<196608xbf16>) offset(%2 : index) count(64) s1(768) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
    %3 = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile mod 4 * 256 + step * 128 + 720896), domain: tile in [0, 15], step in [0, 1]">(%tile, %step)
    %last_right = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%last_right : !tx8.buffer) slot(%p0 : tensor<98304xbf16>) offset(%3 : index) count(64) s1(512) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
    %result = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.NE_gemm dst(%result : !tx8.buffer) left(%last_left : !tx8.buffer) right(%last_right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(1) bf16 from bf16 nearest_even
    %4 = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile floordiv 4 * 65536 + tile mod 4 * 256 + step * 128), domain: tile in [0, 15], step in [0, 1]">(%tile, %step)
    tx8.WDMA_store slot(%r0 : tensor<131072xbf16>) offset(%4 : index) src(%result : !tx8.buffer) count(64) s1(512) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @ring
// CHECK-DAG:     [[NEXT:%.+]] = arith.addi
// CHECK:         [[SUMS:%.+]] = "spm.alloc"() <{size = 16384 : i64, copies = 3 : i64}>
// CHECK:         [[OTHERS:%.+]] = arith.constant 6 : index
// CHECK:         scf.for [[PIECE:%.+]] = {{.*}} to [[OTHERS]] step
// CHECK:           [[PANELS:%.+]] = arith.constant 2 : index
// CHECK:           scf.for {{.*}} to [[PANELS]] step
// CHECK:             RDMA_load {{.*}} slot(%t
// CHECK-SAME:        is_ring
// CHECK:             [[X:%.+]] = "spm.turn"([[SUMS]], [[PIECE]])
// CHECK:             NE_gemm dst([[X]] {{.*}} psum([[X]]
// CHECK:             TDMA_gatherScatter {{.*}} run_bytes(16)
// CHECK:             DTE_unicast
// CHECK-SAME:        is_ring
// CHECK:           NE_gemm
// CHECK:           DTE_unicast
// CHECK-NOT:       WDMA_store
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             NE_gemm dst([[Y:%.+]] : !tx8.buffer) {{.*}} psum([[Y]]
// CHECK-SAME:        accumulate(1)
// CHECK:           NE_gemm {{.*}} accumulate(1) bf16 from bf16
// CHECK:           WDMA_store

// -----

// Sums that are stored as they are need no place until all of a tile's columns are there. Two of its four pieces go around, then the
// other two; in the last of eight steps, and the one before, they are stored.

func.func @stored(%p0: tensor<196608xbf16>, %r0: tensor<262144xf32>) attributes {xla.entry, xla.ring_sums, xla.mesh = array<i64: 4, 4>} {
  %t = xla.allocate_scratch : tensor<196608xbf16>
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c11 = arith.constant 11 : index
  scf.for %step = %c0 to %c4 step %c1 {
    %sums = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    scf.for %k = %c0 to %c11 step %c1 {
      %0 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (k * 128 + tile floordiv 4 * 98304), domain: tile in [0, 15], k in [0, 10]">(%tile, %k)
      %left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%left : !tx8.buffer) slot(%t : tensor<196608xbf16>) offset(%0 : index) count(64) s1(768) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      %1 = xla.apply_indexing #xla.indexing_map<"(tile, step, k) -> (k * 131072 + tile mod 4 * 512 + step * 128), domain: tile in [0, 15], step in [0, 3], k in [0, 10]">(%tile, %step, %k)
      %right = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%right : !tx8.buffer) slot(%p0 : tensor<196608xbf16>) offset(%1 : index) count(64) s1(1024) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
      %go = arith.minsi %k, %c1 : index
      tx8.NE_gemm dst(%sums : !tx8.buffer) left(%left : !tx8.buffer) right(%right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%go : index) fp32 from bf16 nearest_even
    }
    %2 = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile floordiv 4 * 98304 + 1408), domain: tile in [0, 15]">(%tile)
    %last_left = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%last_left : !tx8.buffer) slot(%t : tensor<196608xbf16>) offset(%2 : index) count(64) s1(768) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
    %3 = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile mod 4 * 512 + step * 128 + 1441792), domain: tile in [0, 15], step in [0, 3]">(%tile, %step)
    %last_right = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%last_right : !tx8.buffer) slot(%p0 : tensor<196608xbf16>) offset(%3 : index) count(64) s1(1024) n1(64) s2(0) n2(1) s3(0) n3(1) bf16
    %result = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.NE_gemm dst(%result : !tx8.buffer) left(%last_left : !tx8.buffer) right(%last_right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(1) fp32 from bf16 nearest_even
    %4 = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile floordiv 4 * 262144 + tile mod 4 * 1024 + step * 256), domain: tile in [0, 15], step in [0, 3]">(%tile, %step)
    tx8.WDMA_store slot(%r0 : tensor<262144xf32>) offset(%4 : index) src(%result : !tx8.buffer) count(64) s1(1024) n1(64) s2(0) n2(1) s3(0) n3(1) fp32
  }
  func.return
}

// CHECK-LABEL: func.func @stored
// CHECK:         [[SUMS:%.+]] = "spm.alloc"() <{size = 16384 : i64, copies = 3 : i64}>
// CHECK:         [[ALL:%.+]] = arith.constant 16 : index
// CHECK:         scf.for [[PIECE:%.+]] = {{.*}} to [[ALL]] step
// CHECK:           KC_wait engines(8)
// CHECK:           scf.for
// CHECK:             NE_gemm
// CHECK:             TDMA_gatherScatter {{.*}} run_bytes(16)
// CHECK:             DTE_unicast
// CHECK:           [[Y:%.+]] = "spm.turn"([[SUMS]], [[PIECE]])
// CHECK:           NE_gemm dst([[Y]] {{.*}} psum([[Y]] {{.*}} accumulate(1) fp32 from bf16
// CHECK:           DTE_unicast
// CHECK:           scf.if
// CHECK:             [[Z:%.+]] = "spm.turn"([[SUMS]], [[PIECE]])
// CHECK:             WDMA_store {{.*}} src([[Z]]
// CHECK-NOT:     NE_gemm
