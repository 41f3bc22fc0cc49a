// RUN: %opt -p expand-chlo %s --split-input-file | filecheck %s

// What StableHLO has, or says in a few ops.

func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  %0 = "chlo.square"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "chlo.is_inf"(%0) : (tensor<4xf32>) -> tensor<4xi1>
  func.return %0, %1 : tensor<4xf32>, tensor<4xi1>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<4xf32>)
// CHECK-NEXT:   %[[S:.*]] = "stablehlo.multiply"(%[[A]], %[[A]])
// CHECK-NEXT:   %[[INF:.*]] = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAfw==">}>
// CHECK-NEXT:   %[[ABS:.*]] = "stablehlo.abs"(%[[S]])
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.compare"(%[[ABS]], %[[INF]]) <{comparison_direction = "EQ"}>
// CHECK-NEXT:   func.return %[[S]], %[[R]]

// -----

// Operands that are broadcast by the op itself are broadcast before it.

func.func @main(%a: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "chlo.broadcast_add"(%a, %b) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  func.return %0 : tensor<3x4xf32>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<3x4xf32>, %[[B:.*]]: tensor<4xf32>)
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.broadcast_in_dim"(%[[B]]) <{broadcast_dimensions = array<i64: 1>}>
// CHECK-NEXT:   "stablehlo.add"(%[[A]], %[[R]])
// CHECK-NOT:  chlo
