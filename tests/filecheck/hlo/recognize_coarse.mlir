// RUN: %opt -p 'recognize-coarse{keep="softmax,silu"}' %s --split-input-file | filecheck %s

// A coarse op that is wanted stays, what is inside of it goes; one that is not wanted goes, and what was inside of it is looked at.

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "hlo.fusion"(%x) <{kind = "kCustom", fusion_name = "silu", coarse = {}}> ({
  ^bb0(%p: tensor<4xf32>):
    %b = "hlo.fusion"(%p) <{kind = "kCustom", fusion_name = "softmax", coarse = {}}> ({
    ^bb1(%q: tensor<4xf32>):
      %c = "stablehlo.exponential"(%q) : (tensor<4xf32>) -> tensor<4xf32>
      "stablehlo.return"(%c) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    "stablehlo.return"(%b) : (tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %d = "hlo.fusion"(%a) <{kind = "kCustom", fusion_name = "mine.other", coarse = {}}> ({
  ^bb2(%r: tensor<4xf32>):
    %e = "stablehlo.negate"(%r) : (tensor<4xf32>) -> tensor<4xf32>
    %f = "hlo.fusion"(%e) <{kind = "kCustom", fusion_name = "softmax", coarse = {axis = 0 : i64}}> ({
    ^bb3(%s: tensor<4xf32>):
      %g = "stablehlo.exponential"(%s) : (tensor<4xf32>) -> tensor<4xf32>
      "stablehlo.return"(%g) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    "stablehlo.return"(%f) : (tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %d : tensor<4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT:    [[A:%[0-9a-z]+]] = "hlo.fusion"(%x) <{{.*}}"silu"
// CHECK-NEXT:    ^bb0([[P:%[0-9a-z]+]]
// CHECK-NEXT:      [[C:%[0-9a-z]+]] = "stablehlo.exponential"([[P]])
// CHECK-NEXT:      "stablehlo.return"([[C]])
// CHECK-NEXT:    }) :
// CHECK-NEXT:    [[E:%[0-9a-z]+]] = "stablehlo.negate"([[A]])
// CHECK-NEXT:    [[F:%[0-9a-z]+]] = "hlo.fusion"([[E]]) <{{.*}}coarse = {axis = 0 : i64}
// CHECK:         func.return [[F]]

// -----

// Instructions that compute a softmax are one, whatever is around them.

func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %n = "stablehlo.negate"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = "stablehlo.exponential"(%n) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = "stablehlo.reduce"(%e, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %t = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4xf32>) -> tensor<4x8xf32>
  %r = "stablehlo.divide"(%e, %t) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %r : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:         [[N:%[0-9a-z]+]] = "stablehlo.negate"(%x)
// CHECK-NEXT:    [[R:%[0-9a-z]+]] = "hlo.fusion"([[N]]) <{{.*}}"softmax", coarse = {axis = 1 : i64}
// CHECK:           "stablehlo.divide"
// CHECK:         func.return [[R]]
