// RUN: %opt -p send-early --split-input-file %s | filecheck %s

// Parts that the second phase sends are loaded and sent in the first one; its end waits for them.

func.func @phases(%p0: tensor<262144xf32>, %p1: tensor<262144xf32>, %r0: tensor<1024xf32>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  %w = "spm.alloc"() <{size = 65536 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%w : !tx8.buffer) slot(%p0 : tensor<262144xf32>) offset(0) count(16384) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  scf.for %k = %c0 to %c2 step %c1 {
    tx8.WDMA_store slot(%r0 : tensor<1024xf32>) offset(0) src(%w : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  %s = xla.sync_tiles %r0 : tensor<1024xf32> -> tensor<1024xf32>
  %v = "spm.alloc"() <{size = 65536 : i64, copies = 1 : i64}> {loads_parts = 0 : i64} : () -> !tx8.buffer
  %o = arith.muli %tile, %c2 {loads_parts = 0 : i64} : index
  %part = "spm.offset"(%v, %o) {loads_parts = 0 : i64} : (!tx8.buffer, index) -> !tx8.buffer
  tx8.RDMA_load dst(%part : !tx8.buffer) slot(%p1 : tensor<262144xf32>) offset(0) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32 {loads_parts = 0 : i64}
  %token = "spm.alloc"() <{size = 16 : i64, copies = 1 : i64}> {sends_parts = -1 : i64} : () -> !tx8.buffer
  tx8.TDMA_gatherScatter dst(%token : !tx8.buffer) src(%part : !tx8.buffer) run_bytes(16) rs1(0) rn1(1) rs2(0) rn2(1) rs3(0) rn3(1) ws1(0) wn1(1) ws2(0) wn2(1) ws3(0) wn3(1) int8 {sends_parts = 0 : i64}
  tx8.KC_wait engines(8) {sends_parts = -1 : i64}
  tx8.DTE_multicast dst(%part : !tx8.buffer) src(%part : !tx8.buffer) n(64) tiles(6) fp32 {is_ordered, sends_parts = 0 : i64}
  tx8.KC_wait engines(32) {sends_parts = -1 : i64}
  tx8.KC_barrier {sends_parts = -1 : i64}
  scf.for %k = %c0 to %c2 step %c1 {
    tx8.WDMA_store slot(%r0 : tensor<1024xf32>) offset(0) src(%v : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  func.return
}

// CHECK-LABEL: func.func @phases
// CHECK:         tx8.RDMA_load {{.*}} slot(%p1
// CHECK:         tx8.TDMA_gatherScatter
// CHECK-NEXT:    tx8.KC_wait
// CHECK-NEXT:    tx8.DTE_multicast
// CHECK:         scf.for
// CHECK:         xla.sync_tiles
// CHECK-NOT:     KC_barrier
// CHECK:         scf.for

// -----

// Two buffers of this size have no room beside each other.

func.func @phases(%p0: tensor<262144xf32>, %p1: tensor<262144xf32>, %r0: tensor<1024xf32>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  %w = "spm.alloc"() <{size = 2097152 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%w : !tx8.buffer) slot(%p0 : tensor<262144xf32>) offset(0) count(524288) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  scf.for %k = %c0 to %c2 step %c1 {
    tx8.WDMA_store slot(%r0 : tensor<1024xf32>) offset(0) src(%w : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  %s = xla.sync_tiles %r0 : tensor<1024xf32> -> tensor<1024xf32>
  %v = "spm.alloc"() <{size = 2097152 : i64, copies = 1 : i64}> {loads_parts = 0 : i64} : () -> !tx8.buffer
  %o = arith.muli %tile, %c2 {loads_parts = 0 : i64} : index
  %part = "spm.offset"(%v, %o) {loads_parts = 0 : i64} : (!tx8.buffer, index) -> !tx8.buffer
  tx8.RDMA_load dst(%part : !tx8.buffer) slot(%p1 : tensor<262144xf32>) offset(0) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32 {loads_parts = 0 : i64}
  %token = "spm.alloc"() <{size = 16 : i64, copies = 1 : i64}> {sends_parts = -1 : i64} : () -> !tx8.buffer
  tx8.TDMA_gatherScatter dst(%token : !tx8.buffer) src(%part : !tx8.buffer) run_bytes(16) rs1(0) rn1(1) rs2(0) rn2(1) rs3(0) rn3(1) ws1(0) wn1(1) ws2(0) wn2(1) ws3(0) wn3(1) int8 {sends_parts = 0 : i64}
  tx8.KC_wait engines(8) {sends_parts = -1 : i64}
  tx8.DTE_multicast dst(%part : !tx8.buffer) src(%part : !tx8.buffer) n(64) tiles(6) fp32 {is_ordered, sends_parts = 0 : i64}
  tx8.KC_wait engines(32) {sends_parts = -1 : i64}
  tx8.KC_barrier {sends_parts = -1 : i64}
  scf.for %k = %c0 to %c2 step %c1 {
    tx8.WDMA_store slot(%r0 : tensor<1024xf32>) offset(0) src(%v : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  func.return
}

// CHECK-LABEL: func.func @phases
// CHECK-NOT:     tx8.DTE_multicast
// CHECK:         xla.sync_tiles
// CHECK:         tx8.RDMA_load {{.*}} slot(%p1
// CHECK:         tx8.DTE_multicast
// CHECK:         tx8.KC_barrier
