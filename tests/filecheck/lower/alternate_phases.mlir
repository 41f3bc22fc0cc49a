// RUN: %opt -p alternate-phases %s | filecheck %s

// Three parts of two phases: the first phase has two steps of each part, and is one part ahead. What is filled before is filled for
// each part.

func.func @phases(%p0: tensor<4096xbf16>, %r0: tensor<4096xbf16>) attributes {xla.entry, xla.phase_steps = 3 : i64} {
  %between = xla.allocate_scratch : tensor<4096xbf16>
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c6 = arith.constant 6 : index
  %ones = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.TDMA_memset dst(%ones : !tx8.buffer) value(16256) n(64) s1(0) n1(1) s2(0) n2(1) bf16
  scf.for %up = %c0 to %c6 step %c1 {
    %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %c128 = arith.constant 128 : index
    %0 = arith.muli %up, %c128 : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(%0 : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.CGRATensor_ArithOp_V_VV_add dst(%a : !tx8.buffer) a(%a : !tx8.buffer) b(%ones : !tx8.buffer) n(64) bf16
    tx8.WDMA_store slot(%between : tensor<4096xbf16>) offset(%0 : index) src(%a : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  }
  %1 = xla.sync_tiles %between : tensor<4096xbf16> -> tensor<4096xbf16>
  scf.for %down = %c0 to %c3 step %c1 {
    %b = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %c256 = arith.constant 256 : index
    %2 = arith.muli %down, %c256 : index
    tx8.RDMA_load dst(%b : !tx8.buffer) slot(%between : tensor<4096xbf16>) offset(%2 : index) count(128) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%2 : index) src(%b : !tx8.buffer) count(128) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @phases
// CHECK:         [[FIRST:%.+]] = xla.allocate_scratch
// CHECK:         [[SECOND:%.+]] = xla.allocate_scratch
// CHECK:         [[THIRD:%.+]] = xla.allocate_scratch
// CHECK-COUNT-1: TDMA_memset
// CHECK:         WDMA_store slot([[FIRST]]
// CHECK:         xla.sync_tiles [[SECOND]]
// CHECK:         TDMA_memset
// CHECK:         WDMA_store slot([[SECOND]]
// CHECK:         xla.sync_tiles [[FIRST]]
// CHECK:         RDMA_load {{.*}} slot([[FIRST]]
// CHECK:         xla.sync_tiles [[THIRD]]
// CHECK:         WDMA_store slot([[THIRD]]
// CHECK:         xla.sync_tiles [[SECOND]]
// CHECK:         RDMA_load {{.*}} slot([[SECOND]]
// CHECK:         xla.sync_tiles [[THIRD]]
// CHECK:         RDMA_load {{.*}} slot([[THIRD]]
// CHECK-NOT:     RDMA_load
