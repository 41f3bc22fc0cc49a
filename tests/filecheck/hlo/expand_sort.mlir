// RUN: %opt -p expand-sort %s --split-input-file | filecheck %s

// Four elements: blocks of two, then of four and neighbours. The key and the number of an element are one integer.

func.func @main(%0: tensor<4xi32>) -> tensor<4xi32> {
  %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%2: tensor<i32>, %3: tensor<i32>):
    %4 = "stablehlo.compare"(%2, %3) <{comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%4) : (tensor<i1>) -> ()
  }) : (tensor<4xi32>) -> tensor<4xi32>
  func.return %1 : tensor<4xi32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<4xi64>
// CHECK:         "stablehlo.or"{{.*}}-> tensor<4xi64>
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x2x2x1x1xi64>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x2x2x1x1xi64>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<1x2x2x1x1xi1>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<1x2x2x1x1xi1>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<1x2x2x1x1xi64>
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x1x2x2x1xi64>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x1x2x2x1xi64>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<1x1x2x2x1xi1>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<1x1x2x2x1xi1>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<1x1x2x2x1xi64>
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x2x2x1x1xi64>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x2x2x1x1xi64>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<1x2x2x1x1xi1>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<1x2x2x1x1xi1>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<1x2x2x1x1xi64>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<1x4x1xi32>
// CHECK:           func.return %46
