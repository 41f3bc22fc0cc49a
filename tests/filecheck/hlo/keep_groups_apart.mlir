// RUN: %opt -p keep-groups-apart --split-input-file %s | filecheck %s

// Heads of two sizes are one dimension of scores only between two products: all of softmax has both, and so has a bias of heads.
func.func public @two_dimensions(%0: tensor<4x2x16x8xf32>, %1: tensor<4x24x8xf32>, %2: tensor<4x24x8xf32>, %3: tensor<8x24xf32>) -> tensor<4x2x16x8xf32> {
  %4 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %5 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [2]>">}> : (tensor<4x2x16x8xf32>, tensor<4x24x8xf32>) -> tensor<4x2x16x24xf32>
  %6 = "stablehlo.reshape"(%5) : (tensor<4x2x16x24xf32>) -> tensor<8x16x24xf32>
  %7 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<8x24xf32>) -> tensor<8x16x24xf32>
  %8 = "stablehlo.add"(%6, %7) : (tensor<8x16x24xf32>, tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %9 = "stablehlo.reduce"(%8, %4) <{dimensions = array<i64: 2>}> ({
  ^bb0(%10: tensor<f32>, %11: tensor<f32>):
    %12 = "stablehlo.maximum"(%10, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%12) : (tensor<f32>) -> ()
  }) : (tensor<8x16x24xf32>, tensor<f32>) -> tensor<8x16xf32>
  %13 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<8x16xf32>) -> tensor<8x16x24xf32>
  %14 = "stablehlo.subtract"(%8, %13) : (tensor<8x16x24xf32>, tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %15 = "stablehlo.reshape"(%14) : (tensor<8x16x24xf32>) -> tensor<4x2x16x24xf32>
  %16 = "stablehlo.dot_general"(%15, %2) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [1]>">}> : (tensor<4x2x16x24xf32>, tensor<4x24x8xf32>) -> tensor<4x2x16x8xf32>
  func.return %16 : tensor<4x2x16x8xf32>
}
// CHECK-LABEL: @two_dimensions
// CHECK:         %[[S:.*]] = "stablehlo.dot_general"{{.*}} -> tensor<4x2x16x24xf32>
// CHECK-NEXT:    %[[B:.*]] = "stablehlo.reshape"{{.*}} : (tensor<8x24xf32>) -> tensor<4x2x24xf32>
// CHECK-NEXT:    "stablehlo.broadcast_in_dim"(%[[B]]) <{broadcast_dimensions = array<i64: 0, 1, 3>}>
// CHECK-NEXT:    "stablehlo.add"{{.*}} -> tensor<4x2x16x24xf32>
// CHECK:         "stablehlo.reduce"{{.*}}dimensions = array<i64: 3>
// CHECK:         "stablehlo.broadcast_in_dim"{{.*}} <{broadcast_dimensions = array<i64: 0, 1, 2>}>
// CHECK-NEXT:    %[[D:.*]] = "stablehlo.subtract"{{.*}} -> tensor<4x2x16x24xf32>
// CHECK-NEXT:    "stablehlo.dot_general"(%[[D]],

// -----

// One head of keys: what takes the dimension apart again has the other one elsewhere, which the product reads where it was.
func.func public @one_head(%0: tensor<1x1x16x8x4xf32>, %1: tensor<1x1x24x4xf32>, %2: tensor<1x24x1x4xf32>) -> tensor<1x1x16x8x4xf32> {
  %3 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %4 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [4], rhs_contracting_dimensions = [3]>">}> : (tensor<1x1x16x8x4xf32>, tensor<1x1x24x4xf32>) -> tensor<1x1x16x8x24xf32>
  %5 = "stablehlo.reshape"(%4) : (tensor<1x1x16x8x24xf32>) -> tensor<1x16x8x24xf32>
  %6 = "stablehlo.reduce"(%5, %3) <{dimensions = array<i64: 3>}> ({
  ^bb0(%7: tensor<f32>, %8: tensor<f32>):
    %9 = "stablehlo.maximum"(%7, %8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%9) : (tensor<f32>) -> ()
  }) : (tensor<1x16x8x24xf32>, tensor<f32>) -> tensor<1x16x8xf32>
  %10 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x16x8xf32>) -> tensor<1x16x8x24xf32>
  %11 = "stablehlo.subtract"(%5, %10) : (tensor<1x16x8x24xf32>, tensor<1x16x8x24xf32>) -> tensor<1x16x8x24xf32>
  %12 = "stablehlo.reshape"(%11) : (tensor<1x16x8x24xf32>) -> tensor<1x16x1x8x24xf32>
  %13 = "stablehlo.dot_general"(%12, %2) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [4], rhs_contracting_dimensions = [1]>">}> : (tensor<1x16x1x8x24xf32>, tensor<1x24x1x4xf32>) -> tensor<1x1x16x8x4xf32>
  func.return %13 : tensor<1x1x16x8x4xf32>
}
// CHECK-LABEL: @one_head
// CHECK:         %[[D:.*]] = "stablehlo.subtract"{{.*}} -> tensor<1x1x16x8x24xf32>
// CHECK:         "stablehlo.dot_general"(%[[D]], {{.*}}lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [4]

// -----

// Scores that somebody else reads with the heads in one dimension stay as they are.
func.func public @read_by_others(%0: tensor<4x2x16x8xf32>, %1: tensor<4x24x8xf32>, %2: tensor<4x24x8xf32>) -> (tensor<4x2x16x8xf32>, tensor<8x16xf32>) {
  %3 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %4 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [2]>">}> : (tensor<4x2x16x8xf32>, tensor<4x24x8xf32>) -> tensor<4x2x16x24xf32>
  %5 = "stablehlo.reshape"(%4) : (tensor<4x2x16x24xf32>) -> tensor<8x16x24xf32>
  %6 = "stablehlo.reduce"(%5, %3) <{dimensions = array<i64: 2>}> ({
  ^bb0(%7: tensor<f32>, %8: tensor<f32>):
    %9 = "stablehlo.maximum"(%7, %8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%9) : (tensor<f32>) -> ()
  }) : (tensor<8x16x24xf32>, tensor<f32>) -> tensor<8x16xf32>
  %10 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<8x16xf32>) -> tensor<8x16x24xf32>
  %11 = "stablehlo.subtract"(%5, %10) : (tensor<8x16x24xf32>, tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %12 = "stablehlo.reshape"(%11) : (tensor<8x16x24xf32>) -> tensor<4x2x16x24xf32>
  %13 = "stablehlo.dot_general"(%12, %2) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [1]>">}> : (tensor<4x2x16x24xf32>, tensor<4x24x8xf32>) -> tensor<4x2x16x8xf32>
  func.return %13, %6 : tensor<4x2x16x8xf32>, tensor<8x16xf32>
}
// CHECK-LABEL: @read_by_others
// CHECK:         "stablehlo.reshape"{{.*}} -> tensor<8x16x24xf32>
