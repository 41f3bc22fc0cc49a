// RUN: %opt -p expand-sort %s --split-input-file | filecheck %s

// The key and the number of an element are two words of f32; the operand is read at the numbers.

func.func @main(%0: tensor<4xi32>) -> tensor<4xi32> {
  %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%2: tensor<i32>, %3: tensor<i32>):
    %4 = "stablehlo.compare"(%2, %3) <{comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%4) : (tensor<i1>) -> ()
  }) : (tensor<4xi32>) -> tensor<4xi32>
  func.return %1 : tensor<4xi32>
}

// CHECK:      func.func @main(%[[X:.*]]: tensor<4xi32>)
// CHECK:         %[[A:.*]], %[[B:.*]] = "hlo.fusion"(%[[X]])
// CHECK:           "stablehlo.shift_right_arithmetic"
// CHECK:           "stablehlo.select"
// CHECK:           "stablehlo.bitcast_convert"({{.*}} -> tensor<1x4x1xf32>
// CHECK:           "stablehlo.or"
// CHECK:           "stablehlo.bitcast_convert"({{.*}} -> tensor<1x4x1xf32>
// CHECK:         %{{.*}}, %[[S:.*]] = "hlo.fusion"(%[[A]], %[[B]])
// CHECK:           "hlo.sort_words"({{.*}}) <{dimension = 3 : i64, alternating = -1 : i64, is_bitonic = false}>
// CHECK:         "stablehlo.reshape"(%[[S]])
// CHECK:         %[[N:.*]] = "stablehlo.and"
// CHECK:         "hlo.read_at"(%{{.*}}, %[[N]])

// -----

// Keys of 8 bits and numbers share one word. With padding there are eight elements.

func.func @one_word(%0: tensor<5xui8>) -> tensor<5xui8> {
  %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%2: tensor<ui8>, %3: tensor<ui8>):
    %4 = "stablehlo.compare"(%2, %3) <{comparison_direction = "GT"}> : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
    "stablehlo.return"(%4) : (tensor<i1>) -> ()
  }) : (tensor<5xui8>) -> tensor<5xui8>
  func.return %1 : tensor<5xui8>
}

// CHECK:      func.func @one_word(
// CHECK:         "stablehlo.pad"({{.*}} -> tensor<1x8x1xi32>
// CHECK:         "stablehlo.shift_left"
// CHECK:         %{{.*}} = "hlo.sort_words"(%{{.*}}) <{dimension = 3

// -----

// Four elements of 64 bits: blocks of two, then of four and neighbours, each a fusion. The element's number goes with it.

func.func @wide(%0: tensor<4xi64>) -> tensor<4xi64> {
  %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%2: tensor<i64>, %3: tensor<i64>):
    %4 = "stablehlo.compare"(%2, %3) <{comparison_direction = "LT"}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
    "stablehlo.return"(%4) : (tensor<i1>) -> ()
  }) : (tensor<4xi64>) -> tensor<4xi64>
  func.return %1 : tensor<4xi64>
}

// CHECK:      func.func @wide(
// CHECK-NOT:     hlo.sort_words
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x2x2x1x1xi64>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x2x2x1x1xi32>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<1x2x2x1x1xi64>
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x1x2x2x1xi64>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x1x2x2x1xi32>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<1x1x2x2x1xi64>
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x2x2x1x1xi64>
// CHECK:           func.return
