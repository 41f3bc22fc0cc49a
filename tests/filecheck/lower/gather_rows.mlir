// RUN: %opt -p gather-rows %s | filecheck %s

// A mesh row multiplies 64 rows of 128 columns, of which each of its tiles has made 16 in two steps. A step's rows go to their place in a
// buffer that all four tiles have, and from there to the others: the first block at once, the second one beside the next step. The
// tile in column c sends the first 2 c rows of a first block behind the others.

func.func @gather(%p0: tensor<32768xf32>, %p1: tensor<32768xf32>) attributes {xla.entry, xla.gathers_rows, xla.mesh = array<i64: 4, 4>} {
  %t = xla.allocate_scratch : tensor<32768xf32>
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.for %turn = %c0 to %c1 step %c1 {
    scf.for %step = %c0 to %c2 step %c1 {
      %0 = xla.apply_indexing #xla.indexing_map<"(tile, turn, step) -> (tile * 8192 + step * 4096), domain: tile in [0, 15], turn in [0, 0], step in [0, 1]">(%tile, %turn, %step)
      %x = "spm.alloc"() <{size = 4096 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%x : !tx8.buffer) slot(%p0 : tensor<32768xf32>) offset(%0 : index) count(64) s1(128) n1(8) s2(64) n2(2) s3(0) n3(1) fp32
      %y = "spm.alloc"() <{size = 4096 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.CGRATensor_ArithOp_V_VS_add dst(%y : !tx8.buffer) a(%x : !tx8.buffer) imm(0) n(1024) fp32
      tx8.WDMA_store slot(%t : tensor<32768xf32>) offset(%0 : index) src(%y : !tx8.buffer) count(64) s1(128) n1(8) s2(64) n2(2) s3(0) n3(1) fp32
    }
  } {xla.row_turns = 2 : index}
  xla.sync_tiles %t : tensor<32768xf32> -> tensor<32768xf32>
  %sums = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %k = %c0 to %c2 step %c1 {
    %1 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (tile floordiv 4 * 32768 + k * 256), domain: tile in [0, 15], k in [0, 1]">(%tile, %k)
    %left = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%left : !tx8.buffer) slot(%t : tensor<32768xf32>) offset(%1 : index) count(64) s1(128) n1(64) s2(0) n2(1) s3(0) n3(1) fp32
    %2 = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (tile mod 4 * 256 + k * 65536), domain: tile in [0, 15], k in [0, 1]">(%tile, %k)
    %right = "spm.alloc"() <{size = 16384 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%right : !tx8.buffer) slot(%p1 : tensor<32768xf32>) offset(%2 : index) count(64) s1(256) n1(64) s2(0) n2(1) s3(0) n3(1) fp32
    tx8.NE_gemm dst(%sums : !tx8.buffer) left(%left : !tx8.buffer) right(%right : !tx8.buffer) psum(%sums : !tx8.buffer) rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(%k : index) fp32 from tf32 nearest_even
  }
  func.return
}

// CHECK-LABEL: func.func @gather
// CHECK-NOT:     xla.allocate_scratch
// CHECK:         [[ROWS:%.+]] = "spm.alloc"() <{size = 32768 : i64, copies = 1 : i64}> {kept, from_start}
// CHECK:         scf.for [[TURN:%.+]] =
// CHECK:           scf.for [[STEP:%.+]] =
// CHECK:             RDMA_load {{.*}} slot(%p0
// CHECK:             [[BEFORE:%.+]] = arith.subi [[STEP]]
// CHECK:             scf.if
// CHECK:               "spm.offset"([[ROWS]]
// CHECK:               [[SECOND:%.+]] = "spm.offset"({{.*}}
// CHECK-NEXT:          tx8.DTE_multicast dst([[SECOND]] : !tx8.buffer) src([[SECOND]] : !tx8.buffer) n(512)
// CHECK-NOT:           DTE_multicast
// CHECK:             CGRATensor_ArithOp_V_VS_add dst([[Y:%.+]] : !tx8.buffer) a
// CHECK:             [[HERE:%.+]] = "spm.offset"([[ROWS]]
// CHECK:             TDMA_gatherScatter dst([[HERE]] {{.*}} src([[Y]] {{.*}} run_bytes(2048) rs1(2048) rn1(2) {{.*}} ws1(16384) wn1(2)
// CHECK-NEXT:        tx8.KC_wait engines(
// CHECK:             [[FIRST:%.+]] = xla.apply_indexing #xla.indexing_map<"(i) -> (i floordiv 4)
// CHECK:             [[REST:%.+]] = arith.subi {{.*}}, [[FIRST]] : index
// CHECK:             [[FROM:%.+]] = "spm.offset"([[HERE]]
// CHECK:             [[N:%.+]] = arith.muli [[REST]]
// CHECK:             DTE_multicast dst([[FROM]] {{.*}} src([[FROM]] {{.*}} n([[N]] : index)
// CHECK:             arith.cmpi sgt, [[FIRST]]
// CHECK-NEXT:        scf.if
// CHECK:               [[N:%.+]] = arith.muli [[FIRST]]
// CHECK-NEXT:          DTE_multicast dst([[HERE]] {{.*}} src([[HERE]] {{.*}} n([[N]] : index)
// CHECK:             }
// CHECK-NOT:         DTE_multicast
// CHECK:           }
// CHECK:           DTE_multicast
// CHECK:         } {xla.row_turns = 2 : index}
// CHECK:         xla.sync_tiles
// CHECK:         scf.for
// CHECK:           [[LEFT:%.+]] = "spm.offset"([[ROWS]]
// CHECK-NOT:       slot(%t
// CHECK:           RDMA_load {{.*}} slot(%p1
// CHECK:           NE_gemm {{.*}} left([[LEFT]]
// CHECK:         } {has_rows}
