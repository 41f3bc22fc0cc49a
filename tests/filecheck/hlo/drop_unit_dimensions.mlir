// RUN: %opt -p drop-unit-dimensions --split-input-file %s | filecheck %s

// A product with a dimension of size 1 beside its rows is one of matrices, and what is made of it has none of size 1 either.

func.func @main(%q: tensor<2x8x3x1x4xf32>, %k: tensor<2x8x3x4xf32>) -> tensor<1x2x3x8xf32> {
  %0 = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [4], rhs_contracting_dimensions = [3]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2x8x3x1x4xf32>, tensor<2x8x3x4xf32>) -> tensor<2x3x8x1x8xf32>
  %1 = "stablehlo.reshape"(%0) : (tensor<2x3x8x1x8xf32>) -> tensor<1x2x3x8x8xf32>
  %2 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1x2x3x8x8xf32>
  %4 = "stablehlo.maximum"(%1, %3) : (tensor<1x2x3x8x8xf32>, tensor<1x2x3x8x8xf32>) -> tensor<1x2x3x8x8xf32>
  %5 = "stablehlo.reduce"(%4, %2) <{dimensions = array<i64: 4>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<1x2x3x8x8xf32>, tensor<f32>) -> tensor<1x2x3x8xf32>
  func.return %5 : tensor<1x2x3x8xf32>
}

// CHECK:      func.func @main(%q
// CHECK:        %[[Q:.*]] = "stablehlo.reshape"(%q) : (tensor<2x8x3x1x4xf32>) -> tensor<2x8x3x4xf32>
// CHECK:        %[[D:.*]] = "stablehlo.dot_general"(%[[Q]], %k) {{.*}}lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]{{.*}} -> tensor<2x3x8x8xf32>
// CHECK:        %[[M:.*]] = "stablehlo.maximum"(%[[D]], %{{.*}}) {{.*}} -> tensor<2x3x8x8xf32>
// CHECK:        %[[R:.*]] = "stablehlo.reduce"(%[[M]], %{{.*}}) <{dimensions = array<i64: 3>}>
// CHECK:        %[[O:.*]] = "stablehlo.reshape"(%[[R]]) : (tensor<2x3x8xf32>) -> tensor<1x2x3x8xf32>
// CHECK:        func.return %[[O]]

// -----

// Contracted dimensions of size 1, too; iotas, transposes and broadcasts to dimensions of size 1 are as they would be without.

func.func @main(%a: tensor<1x6x4xf32>, %b: tensor<1x6x5xf32>) -> (tensor<5x1x4xf32>, tensor<4x1xi32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0, 1], rhs_contracting_dimensions = [0, 1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<1x6x4xf32>, tensor<1x6x5xf32>) -> tensor<4x5xf32>
  %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
  %2 = "stablehlo.transpose"(%1) <{permutation = array<i64: 2, 1, 0>}> : (tensor<4x1x5xf32>) -> tensor<5x1x4xf32>
  %3 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<4x1xi32>
  func.return %2, %3 : tensor<5x1x4xf32>, tensor<4x1xi32>
}

// CHECK:      func.func @main(%a
// CHECK:        %[[D:.*]] = "stablehlo.dot_general"({{.*}}lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]{{.*}} (tensor<6x4xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
// CHECK:        %[[T:.*]] = "stablehlo.transpose"(%[[D]]) <{permutation = array<i64: 1, 0>}>
// CHECK:        %[[R:.*]] = "stablehlo.reshape"(%[[T]])
// CHECK:        %[[I:.*]] = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<4xi32>
// CHECK:        %[[J:.*]] = "stablehlo.reshape"(%[[I]])
// CHECK:        func.return %[[R]], %[[J]]

// -----

// One row alone has no other dimension of rows: nothing is to be gained.

func.func @main(%a: tensor<1x1x6xf32>, %b: tensor<6x5xf32>) -> tensor<1x1x5xf32> {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<1x1x6xf32>, tensor<6x5xf32>) -> tensor<1x1x5xf32>
  func.return %0 : tensor<1x1x5xf32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   "stablehlo.dot_general"(%a, %b)
