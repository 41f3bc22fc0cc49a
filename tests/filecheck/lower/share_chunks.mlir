// RUN: %opt -p prefetch-chunks,share-chunks %s --split-input-file | filecheck %s

// The keys are those of a mesh row in each turn: each of its tiles loads a quarter and sends it to the other three, for the next turn
// in the middle of this one. The rows are the tile's own.

func.func @keys(%p0: tensor<24576xbf16>, %p1: tensor<49152xbf16>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2 : index
  scf.for %turn = %c0 to %c3 step %c1 {
    %k = "spm.alloc"() <{size = 4096 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %q = "spm.alloc"() <{size = 2048 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %head = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> ((tile floordiv 4 * 3 + turn) * 2048), domain: tile in [0, 15], turn in [0, 2]">(%tile, %turn)
    %a = arith.muli %head, %two : index
    tx8.RDMA_load dst(%k : !tx8.buffer) slot(%p0 : tensor<24576xbf16>) offset(%a : index) count(2048) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    %row = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> (tile * 3072 + turn * 1024), domain: tile in [0, 15], turn in [0, 2]">(%tile, %turn)
    %b = arith.muli %row, %two : index
    tx8.RDMA_load dst(%q : !tx8.buffer) slot(%p1 : tensor<49152xbf16>) offset(%b : index) count(1024) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    scf.for %step = %c0 to %c4 step %c1 {
      %s = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.NE_gemm dst(%s : !tx8.buffer) left(%q : !tx8.buffer) right(%k : !tx8.buffer) psum(%s : !tx8.buffer) rows(8) columns(32) depth(64) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
    } {xla.row_steps}
  } {xla.row_turns = 2 : index}
  func.return
}

// CHECK-LABEL: func.func @keys
// CHECK:         [[K:%[a-z0-9_]+]] = "spm.alloc"() <{size = 4096 : i64, copies = 2 : i64}>
// CHECK:         [[COPY:%[a-z0-9_]+]] = "spm.turn"([[K]],
// CHECK:         [[PART:%[a-z0-9_]+]] = "spm.offset"([[COPY]],
// CHECK:         tx8.RDMA_load dst([[PART]] {{.*}}slot(%p0 {{.*}}count(512)
// CHECK:         tx8.RDMA_load {{.*}}slot(%p1 {{.*}}count(1024)
// CHECK:         tx8.TDMA_gatherScatter {{.*}}src([[PART]] {{.*}}run_bytes(16)
// CHECK-NEXT:    tx8.KC_wait engines(16)
// CHECK-NEXT:    tx8.DTE_multicast dst([[PART]] {{.*}}src([[PART]] {{.*}}n(512)
// CHECK-NEXT:    tx8.KC_wait
// CHECK-NEXT:    tx8.KC_barrier
// CHECK:         scf.for %turn
// CHECK:           tx8.RDMA_load {{.*}}slot(%p0 {{.*}}count(512)
// CHECK:           scf.for %step
// CHECK:             arith.cmpi sgt, %step
// CHECK:             arith.cmpi slt, %step
// CHECK:             tx8.KC_wait
// CHECK-NEXT:        tx8.KC_barrier
// CHECK:             tx8.DTE_multicast {{.*}}n(512)
// CHECK:             tx8.NE_gemm
// CHECK:           scf.if
// CHECK-NEXT:        tx8.KC_wait
// CHECK-NEXT:        tx8.KC_barrier

// -----

// Tiles of a row that read different keys, and a buffer that not only the matrix engine reads, load for themselves.

func.func @own(%p0: tensor<24576xbf16>, %p1: tensor<24576xbf16>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c1 = arith.constant 1 : index
  scf.for %turn = %c0 to %c3 step %c1 {
    %k = "spm.alloc"() <{size = 4096 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %q = "spm.alloc"() <{size = 4096 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %s = "spm.alloc"() <{size = 4096 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %head = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> ((tile * 3 + turn) floordiv 4 * 4096), domain: tile in [0, 15], turn in [0, 2]">(%tile, %turn)
    tx8.RDMA_load dst(%k : !tx8.buffer) slot(%p0 : tensor<24576xbf16>) offset(%head : index) count(2048) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    %row = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> ((tile floordiv 4 * 3 + turn) * 4096), domain: tile in [0, 15], turn in [0, 2]">(%tile, %turn)
    tx8.RDMA_load dst(%q : !tx8.buffer) slot(%p1 : tensor<24576xbf16>) offset(%row : index) count(2048) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.CGRATensor_ArithOp_V_VV_add dst(%s : !tx8.buffer) a(%q : !tx8.buffer) b(%q : !tx8.buffer) n(2048) bf16
    tx8.NE_gemm dst(%s : !tx8.buffer) left(%s : !tx8.buffer) right(%k : !tx8.buffer) psum(%s : !tx8.buffer) rows(8) columns(32) depth(64) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
  } {xla.row_turns = 2 : index}
  func.return
}

// CHECK-LABEL: func.func @own
// CHECK-NOT:     DTE
