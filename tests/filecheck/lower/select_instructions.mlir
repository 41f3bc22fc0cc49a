// RUN: %opt -p select-instructions %s --split-input-file | filecheck %s

// Loads and stores become DMA between the scratchpad and a slot, in bytes; element math becomes instructions of CT.

func.func @f(%p0: tensor<4096xf32>, %p1: tensor<4096xf32>, %r0: tensor<4096xf32>) attributes {xla.entry, xla.logical_type = (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>} {
  %tile = xla.tile_id [0, 15]
  "vec.box"() <{shape = array<i64: 256>, ragged = array<i64>}> ({
    %0 = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile * 256), domain: tile in [0, 15]">(%tile)
    %1 = "vec.load"(%p0, %0) <{strides = array<i64: 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<4096xf32>, index) -> vector<256xf32>
    %2 = math.exp %1 : vector<256xf32>
    %3 = "vec.load"(%p1, %0) <{strides = array<i64: 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<4096xf32>, index) -> vector<256xf32>
    %4 = arith.mulf %2, %3 : vector<256xf32>
    "vec.store"(%4, %r0, %0) <{strides = array<i64: 1>}> : (vector<256xf32>, tensor<4096xf32>, index) -> ()
  }) : () -> ()
  func.return
}

// CHECK:      %[[O:.*]] = xla.apply_indexing
// CHECK:      %[[A:.*]] = "spm.alloc"() <{size = 1024 : i64, copies = 1 : i64}>
// CHECK:      arith.muli %[[O]]
// CHECK:      tx8.RDMA_load dst(%[[A]] : !tx8.buffer) slot(%p0 : tensor<4096xf32>) {{.*}} count(256) {{.*}} fp32
// CHECK:      %[[E:.*]] = "spm.alloc"()
// CHECK:      tx8.CGRATensor_TransOp_V_V_exp dst(%[[E]] : !tx8.buffer) src(%[[A]] : !tx8.buffer) n(256) fp32
// CHECK:      tx8.RDMA_load dst(%[[B:.*]] : !tx8.buffer) slot(%p1 : tensor<4096xf32>)
// CHECK:      tx8.CGRATensor_ArithOp_V_VV_mul dst(%[[P:.*]] : !tx8.buffer) a(%[[E]] : !tx8.buffer) b(%[[B]] : !tx8.buffer) n(256) fp32
// CHECK:      tx8.WDMA_store slot(%r0 : tensor<4096xf32>) {{.*}} src(%[[P]] : !tx8.buffer) count(256) {{.*}} fp32
// CHECK-NOT:  vec.

// -----

// Integers go to the kernel core, one instruction per vector.

func.func @g(%p0: tensor<64xi32>, %r0: tensor<64xi32>) attributes {xla.entry, xla.logical_type = (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>} {
  %zero = arith.constant 0 : index
  "vec.box"() <{shape = array<i64: 64>, ragged = array<i64>}> ({
    %1 = "vec.load"(%p0, %zero) <{strides = array<i64: 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<64xi32>, index) -> vector<64xi32>
    %2 = arith.muli %1, %1 : vector<64xi32>
    "vec.store"(%2, %r0, %zero) <{strides = array<i64: 1>}> : (vector<64xi32>, tensor<64xi32>, index) -> ()
  }) : () -> ()
  func.return
}

// CHECK:      func.func @g(
// CHECK:      tx8.RDMA_load dst(%[[A:.*]] : !tx8.buffer) slot(%p0
// CHECK:      tx8.KC_VV_mul {{.*}} a(%[[A]] : !tx8.buffer) b(%[[A]] : !tx8.buffer) n(64) int32
// CHECK:      tx8.WDMA_store slot(%r0

// -----

// A network sorts lanes of two words: of the first, CT takes the smaller and the larger partner, the second goes with it by a mask, and
// TDMA brings the next partners together.

func.func @sorted(%p0: tensor<16xf32>, %p1: tensor<16xf32>, %r0: tensor<16xf32>, %r1: tensor<16xf32>) attributes {xla.entry, xla.logical_type = (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)} {
  %zero = arith.constant 0 : index
  "vec.box"() <{shape = array<i64: 16>, ragged = array<i64>}> ({
    %1 = "vec.load"(%p0, %zero) <{strides = array<i64: 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<16xf32>, index) -> vector<16xf32>
    %2 = "vec.load"(%p1, %zero) <{strides = array<i64: 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<16xf32>, index) -> vector<16xf32>
    %3, %4 = "vec.sort_lanes"(%1, %2) <{along = 0 : i64, is_bitonic, operandSegmentSizes = array<i32: 2, 0>}> : (vector<16xf32>, vector<16xf32>) -> (vector<16xf32>, vector<16xf32>)
    "vec.store"(%3, %r0, %zero) <{strides = array<i64: 1>}> : (vector<16xf32>, tensor<16xf32>, index) -> ()
    "vec.store"(%4, %r1, %zero) <{strides = array<i64: 1>}> : (vector<16xf32>, tensor<16xf32>, index) -> ()
  }) : () -> ()
  func.return
}

// CHECK:      func.func @sorted(
// CHECK:      %[[TURNS:.*]] = arith.constant 2 : index
// CHECK:      scf.for %{{.*}} = %{{.*}} to %[[TURNS]] step
// CHECK:        tx8.CGRATensor_RelaOp_V_VV_lt dst(%[[LESS:[0-9]+]] : !tx8.buffer) {{.*}} n(8) fp32
// CHECK:        tx8.CGRATensor_RelaOp_V_VV_eq dst(%[[SAME:[0-9]+]] : !tx8.buffer) {{.*}} n(8) fp32
// CHECK:        tx8.CGRATensor_ArithOp_V_VV_min {{.*}} n(8) fp32
// CHECK:        tx8.CGRATensor_ArithOp_V_VV_max {{.*}} n(8) fp32
// CHECK:        tx8.TDMA_gatherScatter
// CHECK:        tx8.CGRATensor_RelaOp_V_VV_lt dst(%[[NEXT:[0-9]+]] : !tx8.buffer) {{.*}} n(8) fp32
// CHECK:        tx8.CGRATensor_DataMoveOp_V_V_maskmove dst(%[[LESS]] : !tx8.buffer) src(%[[NEXT]] : !tx8.buffer) mask(%[[SAME]] : !tx8.buffer) n(8)
// CHECK:        tx8.CGRATensor_DataMoveOp_V_V_maskmove {{.*}} mask(%[[LESS]] : !tx8.buffer) n(8)
// CHECK:        tx8.CGRATensor_DataMoveOp_V_V_maskmove {{.*}} mask(%[[LESS]] : !tx8.buffer) n(8)
// CHECK:        tx8.TDMA_gatherScatter
// CHECK:      tx8.WDMA_store slot(%r0

// -----

// Rows of a tensor in SPM under windows: TDMA moves those that there are from what the step has stored to between zeros.

func.func @windows(%p0: tensor<4096xbf16>, %r0: tensor<4096xbf16>) attributes {xla.entry, xla.logical_type = (tensor<16x4x64xbf16>, tensor<16x4x64xbf16>) -> tensor<16x4x64xbf16>} {
  %tile = xla.tile_id [0, 3]
  %zero = arith.constant 0.000000e+00 : bf16
  %s = xla.allocate_scratch in_spm : tensor<4096xbf16>
  "vec.box"() <{shape = array<i64: 6, 4, 64>, ragged = array<i64>}> ({
    %0 = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile * 1024 - (tile + 3) floordiv 4 * 256 - (tile + 1) floordiv 4 * 256), domain: tile in [0, 3]">(%tile)
    %1 = "vec.load"(%p0, %0) <{strides = array<i64: 256, 64, 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<4096xbf16>, index) -> vector<6x4x64xbf16>
    "vec.store"(%1, %s, %0) <{strides = array<i64: 256, 64, 1>}> : (vector<6x4x64xbf16>, tensor<4096xbf16>, index) -> ()
  }) : () -> ()
  "vec.box"() <{shape = array<i64: 6, 6, 64>, ragged = array<i64>}> ({
    %2 = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile * 1024 - 320), domain: tile in [0, 3]">(%tile)
    %3 = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (tile * -4 + 1), domain: tile in [0, 3]">, kind = "max", lower = 0 : i64, upper = 6 : i64}> : (index) -> index
    %4 = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (1), domain: tile in [0, 3]">, kind = "max", lower = 0 : i64, upper = 6 : i64}> : (index) -> index
    %5 = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (tile * -4 + 17), domain: tile in [0, 3]">, kind = "min", lower = 0 : i64, upper = 6 : i64}> : (index) -> index
    %6 = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (5), domain: tile in [0, 3]">, kind = "min", lower = 0 : i64, upper = 6 : i64}> : (index) -> index
    %7 = "vec.load"(%s, %2, %3, %4, %5, %6, %zero) <{strides = array<i64: 256, 64, 1>, clipped = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 1, 2, 2, 1>}> : (tensor<4096xbf16>, index, index, index, index, index, bf16) -> vector<6x6x64xbf16>
    %8 = xla.apply_indexing #xla.indexing_map<"(tile) -> (0), domain: tile in [0, 3]">(%tile)
    "vec.store"(%7, %r0, %8) <{strides = array<i64: 256, 64, 1>}> : (vector<6x6x64xbf16>, tensor<4096xbf16>, index) -> ()
  }) : () -> ()
  func.return
}

// CHECK-LABEL: func.func @windows
// CHECK:       tx8.RDMA_load dst(%[[STORED:.*]] : !tx8.buffer) slot(%p0
// CHECK:       %[[ZEROS:.*]] = "spm.alloc"() <{size = 4608 : i64
// CHECK:       tx8.TDMA_memset dst(%[[ZEROS]] : !tx8.buffer) value(0) n(2304)
// CHECK:       scf.if
// CHECK:         %[[FROM:.*]] = "spm.offset"(%[[STORED]],
// CHECK:         %[[TO:.*]] = "spm.offset"(%[[ZEROS]],
// CHECK:         tx8.TDMA_gatherScatter dst(%[[TO]] : !tx8.buffer) src(%[[FROM]] : !tx8.buffer)
// CHECK-NOT:   tx8.RDMA_load
// CHECK:       tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) {{.*}} src(%[[ZEROS]] : !tx8.buffer)

// -----

// Each of three rows of eight lanes is scanned: with the lanes outside, turns join 1, 2 and 4 lanes apart, then the start.

func.func @scanned(%p0: tensor<24xf32>, %p1: tensor<3xf32>, %r0: tensor<24xf32>) attributes {xla.entry, xla.logical_type = (tensor<24xf32>, tensor<3xf32>, tensor<24xf32>) -> tensor<24xf32>} {
  %zero = arith.constant 0 : index
  "vec.box"() <{shape = array<i64: 3, 8>, ragged = array<i64>}> ({
    %1 = "vec.load"(%p0, %zero) <{strides = array<i64: 8, 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<24xf32>, index) -> vector<3x8xf32>
    %2 = "vec.load"(%p1, %zero) <{strides = array<i64: 1, 0>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<3xf32>, index) -> vector<3x8xf32>
    %3 = "vec.scan_lanes"(%1, %2) <{over = array<i64: 1>, operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%4: f32, %5: f32):
      %6 = arith.addf %4, %5 : f32
      xla.yield %6 : f32
    }) : (vector<3x8xf32>, vector<3x8xf32>) -> vector<3x8xf32>
    "vec.store"(%3, %r0, %zero) <{strides = array<i64: 8, 1>}> : (vector<3x8xf32>, tensor<24xf32>, index) -> ()
  }) : () -> ()
  func.return
}

// CHECK:      func.func @scanned(
// CHECK:      tx8.RDMA_load {{.*}} count(24)
// CHECK:      tx8.RDMA_load {{.*}} count(3)
// CHECK:      tx8.TDMA_gatherScatter
// CHECK:      tx8.CGRATensor_ArithOp_V_VV_add {{.*}} n(21) fp32
// CHECK:      tx8.CGRATensor_ArithOp_V_VV_add {{.*}} n(18) fp32
// CHECK:      tx8.CGRATensor_ArithOp_V_VV_add {{.*}} n(12) fp32
// CHECK:      tx8.CGRATensor_ArithOp_V_VV_add {{.*}} n(24) fp32
// CHECK:      tx8.TDMA_gatherScatter
// CHECK:      tx8.WDMA_store slot(%r0

// -----

// What loops carry is one buffer: the last instruction of a turn writes it in place, unless another reads the old value after it.

func.func @carried(%p0: tensor<64xf32>, %r0: tensor<64xf32>, %r1: tensor<64xf32>) attributes {xla.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.000000e+00 : f32
  scf.for %step = %c0 to %c1 step %c1 {
    "vec.box"() <{shape = array<i64: 64>, ragged = array<i64>}> ({
      %init = "vec.splat"(%zero) : (f32) -> vector<64xf32>
      %sum, %old = scf.for %k = %c0 to %c3 step %c1 iter_args(%acc = %init, %last = %init) -> (vector<64xf32>, vector<64xf32>) {
        %inner = scf.for %l = %c0 to %c3 step %c1 iter_args(%own = %acc) -> (vector<64xf32>) {
          %x = "vec.load"(%p0, %l) <{strides = array<i64: 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<64xf32>, index) -> vector<64xf32>
          %next = arith.addf %own, %x : vector<64xf32>
          scf.yield %next : vector<64xf32>
        }
        %twice = arith.mulf %last, %last : vector<64xf32>
        scf.yield %last, %twice : vector<64xf32>, vector<64xf32>
      }
      "vec.store"(%sum, %r0, %c0) <{strides = array<i64: 1>}> : (vector<64xf32>, tensor<64xf32>, index) -> ()
      "vec.store"(%old, %r1, %c0) <{strides = array<i64: 1>}> : (vector<64xf32>, tensor<64xf32>, index) -> ()
    }) : () -> ()
  }
  func.return
}

// CHECK-LABEL: func.func @carried
// CHECK:         tx8.TDMA_memset dst(%[[ACC:[0-9]+]] : !tx8.buffer)
// CHECK:         tx8.TDMA_memset dst(%[[LAST:[0-9]+]] : !tx8.buffer)
// CHECK-NOT:     tx8.TDMA
// CHECK:         tx8.RDMA_load dst(%[[X:[0-9]+]] : !tx8.buffer)
// CHECK-NEXT:    tx8.CGRATensor_ArithOp_V_VV_add dst(%[[ACC]] : !tx8.buffer) a(%[[ACC]] : !tx8.buffer) b(%[[X]] : !tx8.buffer)
// CHECK-NEXT:  }
// CHECK:         tx8.CGRATensor_ArithOp_V_VV_mul dst(%[[TWICE:[0-9]+]] : !tx8.buffer) a(%[[LAST]] : !tx8.buffer) b(%[[LAST]] : !tx8.buffer)
// CHECK:         tx8.TDMA_gatherScatter dst(%[[COPY:[0-9]+]] : !tx8.buffer) src(%[[LAST]] : !tx8.buffer)
// CHECK:         tx8.TDMA_gatherScatter dst(%[[ACC]] : !tx8.buffer) src(%[[COPY]] : !tx8.buffer)
// CHECK:         tx8.TDMA_gatherScatter dst(%[[LAST]] : !tx8.buffer) src(%[[TWICE]] : !tx8.buffer)

// -----

// One element per row for all columns: runs of 16 bytes first, then these; 70 columns leave two over.

func.func @repeated(%p0: tensor<64xf32>, %r0: tensor<4480xf32>) attributes {xla.entry} {
  %c0 = arith.constant 0 : index
  "vec.box"() <{shape = array<i64: 64, 70>, ragged = array<i64>}> ({
    %x = "vec.load"(%p0, %c0) <{strides = array<i64: 1, 0>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<64xf32>, index) -> vector<4480xf32>
    "vec.store"(%x, %r0, %c0) <{strides = array<i64: 70, 1>}> : (vector<4480xf32>, tensor<4480xf32>, index) -> ()
  }) : () -> ()
  func.return
}

// CHECK-LABEL: func.func @repeated
// CHECK:         tx8.RDMA_load dst(%[[X:[0-9]+]] : !tx8.buffer)
// CHECK:         %[[CHUNKS:[0-9]+]] = "spm.alloc"() <{size = 1024 : i64
// CHECK:         tx8.TDMA_gatherScatter dst(%[[CHUNKS]] : !tx8.buffer) src(%[[X]] : !tx8.buffer) run_bytes(4)
// CHECK:         tx8.TDMA_gatherScatter dst(%[[ALL:[0-9]+]] : !tx8.buffer) src(%[[CHUNKS]] : !tx8.buffer) run_bytes(16)
// CHECK:         tx8.TDMA_gatherScatter dst(%{{[0-9]+}} : !tx8.buffer) src(%[[CHUNKS]] : !tx8.buffer) run_bytes(8)
// CHECK:         tx8.WDMA_store slot(%r0 {{.*}} src(%[[ALL]] : !tx8.buffer)

// -----

// Updates one after the other: the number of its columns, where the last ones take what is left out, and an operation on them.

func.func @joined(%p1: tensor<5xi32>, %p2: tensor<60xi64>, %r0: tensor<96xi64>) attributes {xla.entry, xla.logical_type = (tensor<5xi32>, tensor<60xi64>, tensor<96xi64>) -> tensor<96xi64>} {
  %zero = arith.constant 0 : index
  %none = arith.constant 0 : i64
  "vec.box"() <{shape = array<i64: 8, 12>, ragged = array<i64>}> ({
    %0 = "vec.splat"(%none) : (i64) -> vector<8x12xi64>
    %1 = "vec.join_at"(%0) <{along = 0 : i64, updates = 5 : i64}> ({
      %2 = "vec.load"(%p1, %zero) <{strides = array<i64: 1, 0>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<5xi32>, index) -> vector<5x1xi32>
      xla.yield %2 : vector<5x1xi32>
    }, {
      %3 = "vec.load"(%p2, %zero) <{strides = array<i64: 12, 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<60xi64>, index) -> vector<5x12xi64>
      xla.yield %3 : vector<5x12xi64>
    }, {
    ^bb0(%4: i64, %5: i64):
      %6 = arith.addi %4, %5 : i64
      xla.yield %6 : i64
    }) : (vector<8x12xi64>) -> vector<8x12xi64>
    "vec.store"(%1, %r0, %zero) <{strides = array<i64: 12, 1>}> : (vector<8x12xi64>, tensor<96xi64>, index) -> ()
  }) : () -> ()
  func.return
}

// CHECK:      func.func @joined(
// CHECK-DAG:  tx8.TDMA_memset dst(%[[LIMIT:.*]] : !tx8.buffer) value(8) n(5) {{.*}} uint32
// CHECK-DAG:  tx8.RDMA_load dst(%[[PLACES:.*]] : !tx8.buffer) slot(%p1
// CHECK-DAG:  tx8.RDMA_load dst(%[[UPDATES:.*]] : !tx8.buffer) slot(%p2
// CHECK-DAG:  tx8.TDMA_memset dst(%[[LINES:.*]] : !tx8.buffer) value(0) n(108)
// CHECK:      tx8.KC_VV_min dst(%[[NUMBERS:.*]] : !tx8.buffer) a(%[[PLACES]] : !tx8.buffer) b(%[[LIMIT]] : !tx8.buffer) n(5) uint32
// CHECK:      scf.for
// CHECK:        "spm.offset"(%[[NUMBERS]]
// CHECK:        "vec.read_scalar"
// CHECK:        %[[PLACE:.*]] = "spm.offset"(%[[LINES]]
// CHECK:        %[[UPDATE:.*]] = "spm.offset"(%[[UPDATES]]
// CHECK:        tx8.KC_VV_add dst(%[[PLACE]] : !tx8.buffer) a(%[[PLACE]] : !tx8.buffer) b(%[[UPDATE]] : !tx8.buffer) n(12) int64
// CHECK:      tx8.WDMA_store slot(%r0 : tensor<96xi64>) {{.*}} src(%[[LINES]] : !tx8.buffer)
