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

// -----

// How often each of 64 numbers occurs: a few bytes, but four tiles would compare 262,144 integers for the results of all. Of 8 numbers
// and 64 elements a second loop would take longer.

func.func @main(%x: tensor<4096xi32>, %y: tensor<64xi32>, %zero: tensor<f32>) -> (tensor<64xf32>, tensor<8xf32>) {
  %0 = "stablehlo.broadcast_in_dim"(%x) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4096xi32>) -> tensor<4096x64xi32>
  %1 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<4096x64xi32>
  %2 = "stablehlo.compare"(%0, %1) <{comparison_direction = "EQ"}> : (tensor<4096x64xi32>, tensor<4096x64xi32>) -> tensor<4096x64xi1>
  %3 = "stablehlo.convert"(%2) : (tensor<4096x64xi1>) -> tensor<4096x64xf32>
  %4 = "stablehlo.reduce"(%3, %zero) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<4096x64xf32>, tensor<f32>) -> tensor<64xf32>
  %5 = "stablehlo.broadcast_in_dim"(%y) <{broadcast_dimensions = array<i64: 0>}> : (tensor<64xi32>) -> tensor<64x8xi32>
  %6 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<64x8xi32>
  %7 = "stablehlo.compare"(%5, %6) <{comparison_direction = "EQ"}> : (tensor<64x8xi32>, tensor<64x8xi32>) -> tensor<64x8xi1>
  %8 = "stablehlo.convert"(%7) : (tensor<64x8xi1>) -> tensor<64x8xf32>
  %9 = "stablehlo.reduce"(%8, %zero) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<64x8xf32>, tensor<f32>) -> tensor<8xf32>
  func.return %4, %9 : tensor<64xf32>, tensor<8xf32>
}

// CHECK:      func.func @main(
// CHECK:        "stablehlo.reshape"{{.*}}(tensor<4096x64xf32>) -> tensor<16x256x64xf32>
// CHECK-NOT:    "stablehlo.reshape"
// CHECK:        func.return
