// RUN: %opt -p keep-rows %s | filecheck %s

// A buffer in which a turn computes has no longer what was loaded.

func.func @band(%p0: tensor<1048576xbf16>) attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %rows = "spm.alloc"() <{size = 12288 : i64, copies = 2 : i64}> : () -> !tx8.buffer
  %0 = "spm.turn"(%rows, %c0) : (!tx8.buffer, index) -> !tx8.buffer
  %1 = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> (tile * 65536 + turn * 4096), domain: tile in [0, 15], turn in [0, 3]">(%tile, %c0)
  tx8.RDMA_load dst(%0 : !tx8.buffer) slot(%p0 : tensor<1048576xbf16>) offset(%1 : index) count(64) s1(128) n1(48) s2(64) n2(2) s3(0) n3(1) bf16
  scf.for %turn = %c0 to %c4 step %c1 {
    %next = arith.addi %turn, %c1 : index
    %is_left = arith.cmpi slt, %next, %c4 : index
    scf.if %is_left {
      %2 = "spm.turn"(%rows, %next) : (!tx8.buffer, index) -> !tx8.buffer
      %3 = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> (tile * 65536 + turn * 4096), domain: tile in [0, 15], turn in [0, 3]">(%tile, %next)
      tx8.RDMA_load dst(%2 : !tx8.buffer) slot(%p0 : tensor<1048576xbf16>) offset(%3 : index) count(64) s1(128) n1(48) s2(64) n2(2) s3(0) n3(1) bf16
    }
    %4 = "spm.turn"(%rows, %turn) : (!tx8.buffer, index) -> !tx8.buffer
    tx8.CGRATensor_ArithOp_V_VS_max dst(%4 : !tx8.buffer) a(%4 : !tx8.buffer) imm(0) n(6144) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @band
// CHECK:         scf.for %turn
// CHECK-NOT:       TDMA
// CHECK:           tx8.RDMA_load {{.*}} n1(48) s2(64) n2(2)

// -----

// Of 6 rows of 8 points in two blocks of 64 channels, 2 are new in each turn: 4 stay, block by block.

func.func @read(%p0: tensor<1048576xbf16>) attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %rows = "spm.alloc"() <{size = 12288 : i64, copies = 2 : i64}> : () -> !tx8.buffer
  %result = "spm.alloc"() <{size = 12288 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %turn = %c0 to %c4 step %c1 {
    %next = arith.addi %turn, %c1 : index
    %is_left = arith.cmpi slt, %next, %c4 : index
    scf.if %is_left {
      %2 = "spm.turn"(%rows, %next) : (!tx8.buffer, index) -> !tx8.buffer
      %3 = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> (tile * 65536 + turn * 4096), domain: tile in [0, 15], turn in [0, 3]">(%tile, %next)
      tx8.RDMA_load dst(%2 : !tx8.buffer) slot(%p0 : tensor<1048576xbf16>) offset(%3 : index) count(64) s1(128) n1(48) s2(64) n2(2) s3(0) n3(1) bf16
    }
    %4 = "spm.turn"(%rows, %turn) : (!tx8.buffer, index) -> !tx8.buffer
    tx8.CGRATensor_ArithOp_V_VS_max dst(%result : !tx8.buffer) a(%4 : !tx8.buffer) imm(0) n(6144) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @read
// CHECK:         scf.for %turn
// CHECK:           scf.if
// CHECK:             [[COPY:%[0-9]+]] = "spm.turn"(%rows, %next)
// CHECK:             [[BEFORE:%[0-9]+]] = "spm.turn"(%rows, %{{[0-9]+}})
// CHECK:             scf.for
// CHECK:               [[DST:%[0-9]+]] = "spm.offset"([[COPY]],
// CHECK:               [[BLOCK:%[0-9]+]] = "spm.offset"([[BEFORE]],
// CHECK:               [[SRC:%[0-9]+]] = "spm.offset"([[BLOCK]],
// CHECK:               tx8.TDMA_gatherScatter dst([[DST]] : !tx8.buffer) src([[SRC]] : !tx8.buffer) run_bytes(4096)
// CHECK:               [[REST:%[0-9]+]] = "spm.offset"([[DST]],
// CHECK:               tx8.RDMA_load dst([[REST]] : !tx8.buffer) {{.*}} count(64) s1(128) n1(16) s2(64) n2(1)

// -----

// Of the turns' places some are further from each other than a load is long: an image begins.

func.func @images(%p0: tensor<1048576xbf16>) attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %rows = "spm.alloc"() <{size = 12288 : i64, copies = 2 : i64}> : () -> !tx8.buffer
  %result = "spm.alloc"() <{size = 12288 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %turn = %c0 to %c4 step %c1 {
    %next = arith.addi %turn, %c1 : index
    %is_left = arith.cmpi slt, %next, %c4 : index
    scf.if %is_left {
      %2 = "spm.turn"(%rows, %next) : (!tx8.buffer, index) -> !tx8.buffer
      %3 = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> (tile * 65536 + turn floordiv 2 * 32768 + turn mod 2 * 4096), domain: tile in [0, 15], turn in [0, 3]">(%tile, %next)
      tx8.RDMA_load dst(%2 : !tx8.buffer) slot(%p0 : tensor<1048576xbf16>) offset(%3 : index) count(6144) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    }
    %4 = "spm.turn"(%rows, %turn) : (!tx8.buffer, index) -> !tx8.buffer
    tx8.CGRATensor_ArithOp_V_VS_max dst(%result : !tx8.buffer) a(%4 : !tx8.buffer) imm(0) n(6144) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @images
// CHECK:         scf.for %turn
// CHECK:           scf.if
// CHECK:             [[FRESH:%[0-9]+]] = arith.minsi
// CHECK:             [[KEPT:%[0-9]+]] = arith.subi %{{[0-9]+}}, [[FRESH]]
// CHECK:             scf.if
// CHECK:               tx8.TDMA_gatherScatter
// CHECK:             tx8.RDMA_load {{.*}} count([[FRESH]] : index)

// -----

// Four rows of 8 points, of which those in front of and behind an image of 32 rows are not loaded: how many stay, and where they lie in
// the turn before, is computed of what is loaded in both.

func.func @clipped(%p0: tensor<65536xf32>) attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c512 = arith.constant 512 : index
  %rows = "spm.alloc"() <{size = 8192 : i64, copies = 2 : i64}> : () -> !tx8.buffer
  %result = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %turn = %c0 to %c4 step %c1 {
    %next = arith.addi %turn, %c1 : index
    %is_left = arith.cmpi slt, %next, %c4 : index
    scf.if %is_left {
      %2 = "spm.turn"(%rows, %next) : (!tx8.buffer, index) -> !tx8.buffer
      %first = "vec.extent"(%tile, %next) <{map = #xla.indexing_map<"(tile, turn) -> (turn * -2 - tile mod 4 * 8 + 1), domain: tile in [0, 15], turn in [0, 3]">, kind = "max", lower = 0 : i64, upper = 4 : i64}> : (index, index) -> index
      %end = "vec.extent"(%tile, %next) <{map = #xla.indexing_map<"(tile, turn) -> (turn * -2 - tile mod 4 * 8 + 33), domain: tile in [0, 15], turn in [0, 3]">, kind = "min", lower = 0 : i64, upper = 4 : i64}> : (index, index) -> index
      %count = arith.subi %end, %first : index
      %is_there = arith.cmpi sgt, %count, %c0 : index
      scf.if %is_there {
        %3 = xla.apply_indexing #xla.indexing_map<"(tile, turn) -> (tile * 4096 + turn * 1024 - 512), domain: tile in [0, 15], turn in [0, 3]">(%tile, %next)
        %4 = arith.muli %first, %c512 : index
        %5 = arith.addi %3, %4 : index
        %6 = arith.muli %5, %c4 : index
        %points = arith.muli %count, %c8 : index
        tx8.RDMA_load dst(%2 : !tx8.buffer) slot(%p0 : tensor<65536xf32>) offset(%6 : index) count(64) s1(64) n1(%points : index) s2(0) n2(1) s3(0) n3(1) fp32
      }
    }
    %7 = "spm.turn"(%rows, %turn) : (!tx8.buffer, index) -> !tx8.buffer
    tx8.CGRATensor_ArithOp_V_VS_max dst(%result : !tx8.buffer) a(%7 : !tx8.buffer) imm(0) n(2048) fp32
  }
  func.return
}

// CHECK-LABEL: func.func @clipped
// CHECK:             %points = arith.muli
// CHECK:             [[TURN:%[0-9]+]] = arith.subi %next
// CHECK:             "vec.extent"(%tile, [[TURN]])
// CHECK:             [[MOVED:%[0-9]+]] = xla.apply_indexing #xla.indexing_map<"(i) -> (i floordiv 256)
// CHECK:             arith.maxsi
// CHECK:             [[KEPT:%[0-9]+]] = arith.minsi %points
// CHECK:             [[FRESH:%[0-9]+]] = arith.subi %points, [[KEPT]]
// CHECK:             tx8.TDMA_gatherScatter
// CHECK:             tx8.RDMA_load {{.*}} n1([[FRESH]] : index)
