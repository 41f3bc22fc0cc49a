// RUN: %opt -p early-transfers --split-input-file %s | filecheck %s

// What is read by the second vector instruction is loaded before the first one, what that makes is stored before the third.

func.func @once(%p0: tensor<4096xbf16>, %p1: tensor<4096xbf16>, %r0: tensor<4096xbf16>, %r1: tensor<4096xbf16>) {
  %tile = xla.tile_id [0, 15]
  %o = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile * 128), domain: tile in [0, 15]">(%tile)
  %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(%o : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  %b = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.CGRATensor_ArithOp_V_VV_add dst(%b : !tx8.buffer) a(%a : !tx8.buffer) b(%a : !tx8.buffer) n(64) bf16
  %q = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile * 128 + 2), domain: tile in [0, 15]">(%tile)
  %c = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%c : !tx8.buffer) slot(%p1 : tensor<4096xbf16>) offset(%q : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  %d = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.CGRATensor_ArithOp_V_VV_mul dst(%d : !tx8.buffer) a(%b : !tx8.buffer) b(%c : !tx8.buffer) n(64) bf16
  %e = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.CGRATensor_ArithOp_V_VV_sub dst(%e : !tx8.buffer) a(%d : !tx8.buffer) b(%c : !tx8.buffer) n(64) bf16
  tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%o : index) src(%e : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  %s = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile * 128 + 4), domain: tile in [0, 15]">(%tile)
  tx8.WDMA_store slot(%r1 : tensor<4096xbf16>) offset(%s : index) src(%d : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  func.return
}

// CHECK-LABEL: func.func @once
// CHECK:         tx8.RDMA_load {{.*}}slot(%p0
// CHECK:         [[Q:%[a-z0-9_]+]] = xla.apply_indexing {{.*}}(tile * 128 + 2)
// CHECK:         tx8.RDMA_load {{.*}}slot(%p1 {{.*}}offset([[Q]]
// CHECK-NEXT:    tx8.CGRATensor_ArithOp_V_VV_add
// CHECK:         tx8.CGRATensor_ArithOp_V_VV_mul
// CHECK-NEXT:    [[S:%[a-z0-9_]+]] = xla.apply_indexing {{.*}}(tile * 128 + 4)
// CHECK-NEXT:    tx8.WDMA_store slot(%r1 {{.*}}offset([[S]]
// CHECK:         tx8.CGRATensor_ArithOp_V_VV_sub
// CHECK-NEXT:    tx8.WDMA_store slot(%r0

// -----

// A load behind a store stays there: it may read what was written.

func.func @behind_a_store(%p0: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %c0 = arith.constant 0 : index
  %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  %b = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  %c = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(%c0 : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  tx8.CGRATensor_ArithOp_V_VV_add dst(%b : !tx8.buffer) a(%a : !tx8.buffer) b(%a : !tx8.buffer) n(64) bf16
  tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%c0 : index) src(%b : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  tx8.RDMA_load dst(%c : !tx8.buffer) slot(%r0 : tensor<4096xbf16>) offset(%c0 : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  tx8.CGRATensor_ArithOp_V_VV_mul dst(%b : !tx8.buffer) a(%c : !tx8.buffer) b(%c : !tx8.buffer) n(64) bf16
  tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%c0 : index) src(%b : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  func.return
}

// CHECK-LABEL: func.func @behind_a_store
// CHECK:         tx8.RDMA_load {{.*}}slot(%p0
// CHECK-NEXT:    tx8.CGRATensor_ArithOp_V_VV_add
// CHECK-NEXT:    tx8.WDMA_store
// CHECK-NEXT:    tx8.RDMA_load {{.*}}slot(%r0
// CHECK-NEXT:    tx8.CGRATensor_ArithOp_V_VV_mul
// CHECK-NEXT:    tx8.WDMA_store

// -----

// Turns of a loop are loaded ahead in another way.

func.func @turns(%p0: tensor<4096xbf16>, %p1: tensor<4096xbf16>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  %b = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %step = %c0 to %c4 step %c1 {
    tx8.CGRATensor_ArithOp_V_VV_add dst(%b : !tx8.buffer) a(%b : !tx8.buffer) b(%b : !tx8.buffer) n(64) bf16
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(%c0 : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.CGRATensor_ArithOp_V_VV_mul dst(%b : !tx8.buffer) a(%a : !tx8.buffer) b(%b : !tx8.buffer) n(64) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @turns
// CHECK:         scf.for
// CHECK-NEXT:      tx8.CGRATensor_ArithOp_V_VV_add
// CHECK-NEXT:      tx8.RDMA_load
