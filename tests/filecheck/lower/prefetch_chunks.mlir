// RUN: %opt -p prefetch-chunks %s --split-input-file | filecheck %s

// Chunks are loaded a chunk ahead; what depends on the quotient alone is loaded only when that grows.

func.func @chunks(%p0: tensor<4096xbf16>, %p1: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2 : index
  scf.for %turn = %c0 to %c3 step %c1 {
    %k = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %q = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %head = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> ((tile * 3 + turn) floordiv 4 * 64), domain: tile in [0, 15], turn in [0, 2]">(%tile, %turn)
    %a = arith.muli %head, %two : index
    tx8.RDMA_load dst(%k : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(%a : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    %row = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> (tile * 192 + turn * 64), domain: tile in [0, 15], turn in [0, 2]">(%tile, %turn)
    %b = arith.muli %row, %two : index
    tx8.RDMA_load dst(%q : !tx8.buffer) slot(%p1 : tensor<4096xbf16>) offset(%b : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.CGRATensor_ArithOp_V_VV_add dst(%q : !tx8.buffer) a(%k : !tx8.buffer) b(%k : !tx8.buffer) n(64) bf16
    tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%b : index) src(%k : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  } {xla.row_turns = 2 : index}
  func.return
}

// CHECK:      [[K:%[a-z0-9_]+]] = "spm.alloc"() <{size = 128 : i64, copies = 2 : i64}>
// CHECK:      tx8.RDMA_load {{.*}}slot(%p0
// CHECK:      scf.for %turn
// CHECK:        [[NEXT:%[a-z0-9_]+]] = arith.addi %turn
// CHECK:        scf.if
// CHECK:          [[NOW:%[a-z0-9_]+]] = xla.apply_indexing {{.*}}(tile * 3 + turn) floordiv 4)
// CHECK:          [[THEN:%[a-z0-9_]+]] = xla.apply_indexing {{.*}}(tile * 3 + turn) floordiv 4)
// CHECK-NEXT:     [[OTHER:%[a-z0-9_]+]] = arith.cmpi slt, [[NOW]], [[THEN]]
// CHECK-NEXT:     scf.if [[OTHER]] {
// CHECK:            tx8.RDMA_load {{.*}}slot(%p0
// CHECK:        [[HEAD:%[a-z0-9_]+]] = xla.apply_indexing {{.*}}floordiv 4)
// CHECK-NEXT:   "spm.turn"([[K]], [[HEAD]])
// CHECK-NOT:    slot(%p0
// CHECK:        add

// -----

// Buffers without a second copy: the next chunk's loads stand behind what this one does.

func.func @one_at_a_time(%p0: tensor<4096xbf16>, %p1: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2 : index
  scf.for %turn = %c0 to %c3 step %c1 {
    %k = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %q = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %head = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> ((tile * 3 + turn) floordiv 4 * 64), domain: tile in [0, 15], turn in [0, 2]">(%tile, %turn)
    %a = arith.muli %head, %two : index
    tx8.RDMA_load dst(%k : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(%a : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    %row = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> (tile * 192 + turn * 64), domain: tile in [0, 15], turn in [0, 2]">(%tile, %turn)
    %b = arith.muli %row, %two : index
    tx8.RDMA_load dst(%q : !tx8.buffer) slot(%p1 : tensor<4096xbf16>) offset(%b : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.CGRATensor_ArithOp_V_VV_add dst(%q : !tx8.buffer) a(%k : !tx8.buffer) b(%k : !tx8.buffer) n(64) bf16
    tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%b : index) src(%k : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  } {xla.row_turns = 1 : index}
  func.return
}

// CHECK-LABEL: @one_at_a_time
// CHECK:      [[K:%[a-z0-9_]+]] = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}>
// CHECK:      tx8.RDMA_load dst([[K]] : !tx8.buffer) slot(%p0
// CHECK:      scf.for %turn
// CHECK-NOT:    slot(%p0
// CHECK:        WDMA_store
// CHECK:        arith.cmpi slt
// CHECK-NEXT:   scf.if
// CHECK:          scf.if
// CHECK:            tx8.RDMA_load dst([[K]] : !tx8.buffer) slot(%p0
