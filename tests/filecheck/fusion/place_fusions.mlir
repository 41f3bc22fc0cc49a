// RUN: %opt -p place-fusions %s | filecheck %s

// The bodies of functions with tiles stand where they were called, on these tiles; what does not wait for others comes first, and an
// input of a chain of functions follows the one before on the same tiles. Nobody names the functions any more.

builtin.module @placed {
  func.func private @first(%x: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
    %0 = "hlo.fusion"(%x) <{kind = "kLoop", fusion_name = "tanh"}> ({
    ^bb0(%a: tensor<4xf32>):
      %1 = "stablehlo.tanh"(%a) : (tensor<4xf32>) -> tensor<4xf32>
      "stablehlo.return"(%1) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %0 : tensor<4xf32>
  }
  func.func private @second(%x: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
    %0 = "hlo.fusion"(%x) <{kind = "kLoop", fusion_name = "negate"}> ({
    ^bb0(%a: tensor<4xf32>):
      %1 = "stablehlo.negate"(%a) : (tensor<4xf32>) -> tensor<4xf32>
      "stablehlo.return"(%1) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %0 : tensor<4xf32>
  }
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = func.call @first(%x) {mhlo.frontend_attributes = {tiles = "0,1,1,2"}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = func.call @second(%0) {mhlo.frontend_attributes = {tiles = "1,0,2,1"}} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = func.call @second(%1) {mhlo.frontend_attributes = {tiles = "3,3,1,1"}} : (tensor<4xf32>) -> tensor<4xf32>
    %3 = func.call @first(%y) {mhlo.frontend_attributes = {tiles = "0,1,1,2"}} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = func.call @second(%3) {mhlo.frontend_attributes = {tiles = "1,0,2,1"}} : (tensor<4xf32>) -> tensor<4xf32>
    %5 = func.call @second(%4) {mhlo.frontend_attributes = {tiles = "3,3,1,1"}} : (tensor<4xf32>) -> tensor<4xf32>
    func.return %2, %5 : tensor<4xf32>, tensor<4xf32>
  }
}

// CHECK-NOT:  func.func private
// CHECK:      func.func @main(%x{{.*}}, %y
// CHECK:        %0 = "hlo.fusion"(%x) <{kind = "kLoop", fusion_name = "tanh", tiles = array<i64: 0, 1, 1, 2>}>
// CHECK:        %2 = "hlo.fusion"(%0) <{kind = "kLoop", fusion_name = "negate", tiles = array<i64: 1, 0, 2, 1>}>
// CHECK:        %4 = "hlo.fusion"(%y) <{kind = "kLoop", fusion_name = "tanh", tiles = array<i64: 0, 1, 1, 2>}>
// CHECK:        %6 = "hlo.fusion"(%2) <{kind = "kLoop", fusion_name = "negate", tiles = array<i64: 3, 3, 1, 1>}>
// CHECK:        %8 = "hlo.fusion"(%4) <{kind = "kLoop", fusion_name = "negate", tiles = array<i64: 1, 0, 2, 1>}>
// CHECK:        %10 = "hlo.fusion"(%8) <{kind = "kLoop", fusion_name = "negate", tiles = array<i64: 3, 3, 1, 1>}>
// CHECK:        func.return %6, %10
