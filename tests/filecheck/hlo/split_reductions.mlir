// RUN: %opt -p split-reductions %s --split-input-file | filecheck %s

// One long row: the tiles sum a part each, from -0, which changes nothing; the initial value joins the sum of the parts.

func.func @main(%a: tensor<300000xf32>) -> tensor<f32> {
  %i = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAPw==">}> : () -> tensor<f32>
  %0 = "stablehlo.reduce"(%a, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<300000xf32>, tensor<f32>) -> tensor<f32>
  func.return %0 : tensor<f32>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<300000xf32>)
// CHECK-NEXT:   %[[ONE:.*]] = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAPw==">}>
// CHECK-NEXT:   %[[MINUS_ZERO:.*]] = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAgA==">}>
// CHECK-NEXT:   %[[V:.*]] = "stablehlo.reshape"(%[[A]]) : (tensor<300000xf32>) -> tensor<[[N:[0-9]+]]x{{[0-9]+}}xf32>
// CHECK-NEXT:   %[[P:.*]] = "stablehlo.reduce"(%[[V]], %[[MINUS_ZERO]]) <{dimensions = array<i64: 1>}>
// CHECK:        -> tensor<[[N]]xf32>
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.reduce"(%[[P]], %[[ONE]]) <{dimensions = array<i64: 0>}>
// CHECK:        func.return %[[R]]

// -----

// Rows enough for all tiles stay whole.

func.func @main(%a: tensor<64x1000xf32>) -> tensor<64xf32> {
  %i = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAPw==">}> : () -> tensor<f32>
  %0 = "stablehlo.reduce"(%a, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<64x1000xf32>, tensor<f32>) -> tensor<64xf32>
  func.return %0 : tensor<64xf32>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<64x1000xf32>)
// CHECK:        "stablehlo.reduce"(%[[A]], %{{.*}}) <{dimensions = array<i64: 1>}>
// CHECK-NOT:  "stablehlo.reduce"

// -----

// 33 lines of columns are a third round of 16 tiles. Alone they are split; not so where steps hold rows whole for what is made of them.

func.func @main(%x: tensor<4096x528xf32>, %y: tensor<4096x528xf32>) -> (tensor<528xf32>, tensor<4096x528xf32>) {
  %i = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %s = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<4096x528xf32>, tensor<f32>) -> tensor<528xf32>
  %t = "stablehlo.reduce"(%y, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<4096x528xf32>, tensor<f32>) -> tensor<528xf32>
  %w = "stablehlo.broadcast_in_dim"(%t) <{broadcast_dimensions = array<i64: 1>}> : (tensor<528xf32>) -> tensor<4096x528xf32>
  %d = "stablehlo.divide"(%y, %w) : (tensor<4096x528xf32>, tensor<4096x528xf32>) -> tensor<4096x528xf32>
  func.return %s, %d : tensor<528xf32>, tensor<4096x528xf32>
}

// CHECK:      func.func @main(%[[X:.*]]: tensor<4096x528xf32>, %[[Y:.*]]: tensor<4096x528xf32>)
// CHECK:        "stablehlo.reshape"(%[[X]])
// CHECK-NOT:    "stablehlo.reshape"(%[[Y]])
// CHECK:        "stablehlo.reduce"(%[[Y]], {{.*}}dimensions = array<i64: 0>

// -----

// Columns of 9 tiles are added up before two kernels would have the input; those of 4 tiles, with four times as many rows, are not.

func.func @main(%x: tensor<513x513xbf16>, %y: tensor<2048x256xbf16>, %zero: tensor<bf16>) -> (tensor<513xbf16>, tensor<256xbf16>) {
  %0 = "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %s = "stablehlo.add"(%a, %b) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
    "stablehlo.return"(%s) : (tensor<bf16>) -> ()
  }) : (tensor<513x513xbf16>, tensor<bf16>) -> tensor<513xbf16>
  %1 = "stablehlo.reduce"(%y, %zero) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %s = "stablehlo.add"(%a, %b) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
    "stablehlo.return"(%s) : (tensor<bf16>) -> ()
  }) : (tensor<2048x256xbf16>, tensor<bf16>) -> tensor<256xbf16>
  func.return %0, %1 : tensor<513xbf16>, tensor<256xbf16>
}

// CHECK:      func.func @main(%[[X:.*]]: tensor<513x513xbf16>, %[[Y:.*]]: tensor<2048x256xbf16>
// CHECK-NEXT:   "stablehlo.reduce"(%[[X]]
// CHECK:        "stablehlo.reshape"
// CHECK-SAME:     (tensor<2048x256x{{.*}}>) -> tensor<16x128x256x
