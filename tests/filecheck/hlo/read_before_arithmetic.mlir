// RUN: %opt -p read-before-arithmetic --split-input-file %s | filecheck %s

// One element of each row of a difference: it is read of what is in memory, and of what has an element for each row, or column.

func.func @main(%x: tensor<40x90xf32>, %m: tensor<40xf32>, %c: tensor<90xf32>, %i: tensor<40x1xi32>) -> tensor<40xf32> {
  %0 = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0>}> : (tensor<40xf32>) -> tensor<40x90xf32>
  %1 = "stablehlo.broadcast_in_dim"(%c) <{broadcast_dimensions = array<i64: 1>}> : (tensor<90xf32>) -> tensor<40x90xf32>
  %2 = "stablehlo.subtract"(%x, %0) : (tensor<40x90xf32>, tensor<40x90xf32>) -> tensor<40x90xf32>
  %3 = "stablehlo.multiply"(%2, %1) : (tensor<40x90xf32>, tensor<40x90xf32>) -> tensor<40x90xf32>
  %4 = "hlo.read_at"(%3, %i) <{map = #xla.indexing_map<"(d0) -> (d0, 0), domain: d0 in [0, 39]">, index_maps = [#xla.indexing_map<"(d0) -> (d0, 0), domain: d0 in [0, 39]">], dims = array<i64: 1>, rooms = array<i64: 89>}> : (tensor<40x90xf32>, tensor<40x1xi32>) -> tensor<40xf32>
  func.return %4 : tensor<40xf32>
}

// CHECK:      func.func @main(%x
// CHECK-NEXT:   %[[X:.*]] = "hlo.read_at"(%x, %i) <{{.*}}dims = array<i64: 1>, rooms = array<i64: 89>}> : (tensor<40x90xf32>, tensor<40x1xi32>) -> tensor<40xf32>
// CHECK-NEXT:   %[[M:.*]] = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0>}> : (tensor<40xf32>) -> tensor<40xf32>
// CHECK-NEXT:   %[[D:.*]] = "stablehlo.subtract"(%[[X]], %[[M]])
// CHECK-NEXT:   %[[C:.*]] = "hlo.read_at"(%c, %i) <{{.*}}dims = array<i64: 0>, rooms = array<i64: 89>}> : (tensor<90xf32>, tensor<40x1xi32>) -> tensor<40xf32>
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.multiply"(%[[D]], %[[C]])
// CHECK-NEXT:   func.return %[[R]]

// -----

// Where another reader needs all of it in memory, and what it is of is nowhere, nothing is read early.

func.func @needed(%a: tensor<40x8xf32>, %b: tensor<8x90xf32>, %i: tensor<40x1xi32>) -> (tensor<40xf32>, tensor<40x90xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<40x8xf32>, tensor<8x90xf32>) -> tensor<40x90xf32>
  %1 = "stablehlo.tanh"(%0) : (tensor<40x90xf32>) -> tensor<40x90xf32>
  %2 = "hlo.read_at"(%1, %i) <{map = #xla.indexing_map<"(d0) -> (d0, 0), domain: d0 in [0, 39]">, index_maps = [#xla.indexing_map<"(d0) -> (d0, 0), domain: d0 in [0, 39]">], dims = array<i64: 1>, rooms = array<i64: 89>}> : (tensor<40x90xf32>, tensor<40x1xi32>) -> tensor<40xf32>
  func.return %2, %1 : tensor<40xf32>, tensor<40x90xf32>
}

// CHECK:      func.func @needed
// CHECK:        %[[Y:.*]] = "stablehlo.tanh"
// CHECK-NEXT:   "hlo.read_at"(%[[Y]], %i)
