// RUN: %opt -p inline-calls %s --split-input-file | filecheck %s

// Calls go, at any depth, and functions that nobody calls any more go with them.

func.func private @square(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.multiply"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func private @twice(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @square(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @square(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @twice(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// CHECK:      builtin.module
// CHECK-NEXT:   func.func @main(%[[A:.*]]: tensor<4xf32>)
// CHECK-NEXT:     %[[S:.*]] = "stablehlo.multiply"(%[[A]], %[[A]])
// CHECK-NEXT:     %[[T:.*]] = "stablehlo.multiply"(%[[S]], %[[S]])
// CHECK-NEXT:     func.return %[[T]]
// CHECK-NOT:  func.func
