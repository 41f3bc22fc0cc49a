// RUN: %opt -p expand-dynamic-broadcast %s --split-input-file | filecheck %s

// The shape that the operand says is that of the result type.

func.func @main(%0: tensor<4xf32>, %1: tensor<2xi32>) -> tensor<3x4xf32> {
  %2 = "stablehlo.dynamic_broadcast_in_dim"(%0, %1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xf32>, tensor<2xi32>) -> tensor<3x4xf32>
  func.return %2 : tensor<3x4xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %2 = "stablehlo.broadcast_in_dim"(%0){{.*}}-> tensor<3x4xf32>
// CHECK-NEXT:   func.return %2
