// RUN: %opt -p widen-loads --split-input-file %s | filecheck %s

// Steps of a group whose loads continue each other have one load in front of the loop, and each its part of that.

func.func @rows(%p0: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2 : index
  scf.for %step = %c0 to %c4 step %c1 {
    %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile * 256 + step * 64), domain: tile in [0, 15], step in [0, 3]">(%tile, %step)
    %bytes = arith.muli %o, %two : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(%bytes : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%bytes : index) src(%a : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  } {xla.row_steps}
  func.return
}

// CHECK-LABEL: func.func @rows
// CHECK:         [[A:%[a-z0-9_]+]] = "spm.alloc"() <{size = 512 : i64
// CHECK:         tx8.RDMA_load dst([[A]] {{.*}} count(256)
// CHECK-NEXT:    scf.for
// CHECK:           [[AT:%[a-z0-9_]+]] = arith.muli %step, {{.*}}
// CHECK-NEXT:      [[PART:%[a-z0-9_]+]] = "spm.offset"([[A]], [[AT]])
// CHECK-NOT:       RDMA_load
// CHECK:           tx8.WDMA_store {{.*}}src([[PART]]

// -----

// Rows apart from each other: one more level of the descriptor. Another loop keeps its loads.

func.func @apart(%p0: tensor<8192xbf16>, %r0: tensor<8192xbf16>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2 : index
  scf.for %step = %c0 to %c4 step %c1 {
    %a = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(step) -> (step * 2048), domain: step in [0, 3]">(%step)
    %bytes = arith.muli %o, %two : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<8192xbf16>) offset(%bytes : index) count(64) s1(1024) n1(2) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.WDMA_store slot(%r0 : tensor<8192xbf16>) offset(%bytes : index) src(%a : !tx8.buffer) count(128) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  } {xla.row_steps}
  scf.for %step = %c0 to %c4 step %c1 {
    %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(step) -> (step * 64), domain: step in [0, 3]">(%step)
    %bytes = arith.muli %o, %two : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<8192xbf16>) offset(%bytes : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.WDMA_store slot(%r0 : tensor<8192xbf16>) offset(%bytes : index) src(%a : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @apart
// CHECK:         tx8.RDMA_load {{.*}} count(64) s1(1024) n1(8)
// CHECK-NEXT:    scf.for
// CHECK:         scf.for
// CHECK:           tx8.RDMA_load {{.*}} count(64) s1(0) n1(1)
