// RUN: %opt -p expand-bitcast %s --split-input-file | filecheck %s

// To narrower elements: each part is shifted down and cut; to wider ones: each is shifted up, and all are put together.

func.func @main(%0: tensor<3xf32>, %1: tensor<3x2xi16>) -> (tensor<3x2xi16>, tensor<3xf32>) {
  %2 = "stablehlo.bitcast_convert"(%0) : (tensor<3xf32>) -> tensor<3x2xi16>
  %3 = "stablehlo.bitcast_convert"(%1) : (tensor<3x2xi16>) -> tensor<3xf32>
  func.return %2, %3 : tensor<3x2xi16>, tensor<3xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %2 = "stablehlo.bitcast_convert"(%0){{.*}}-> tensor<3xui32>
// CHECK-NEXT:   %3 = "stablehlo.broadcast_in_dim"(%2){{.*}}-> tensor<3x2xui32>
// CHECK-NEXT:   %4 = "stablehlo.iota"(){{.*}}-> tensor<3x2xui32>
// CHECK-NEXT:   %5 = "stablehlo.constant"(){{.*}}-> tensor<3x2xui32>
// CHECK-NEXT:   %6 = "stablehlo.multiply"(%4, %5){{.*}}-> tensor<3x2xui32>
// CHECK-NEXT:   %7 = "stablehlo.shift_right_logical"(%3, %6){{.*}}-> tensor<3x2xui32>
// CHECK-NEXT:   %8 = "stablehlo.convert"(%7){{.*}}-> tensor<3x2xui16>
// CHECK-NEXT:   %9 = "stablehlo.bitcast_convert"(%8){{.*}}-> tensor<3x2xi16>
// CHECK-NEXT:   %10 = "stablehlo.bitcast_convert"(%1){{.*}}-> tensor<3x2xui16>
// CHECK-NEXT:   %11 = "stablehlo.slice"(%10){{.*}}-> tensor<3x1xui16>
// CHECK-NEXT:   %12 = "stablehlo.reshape"(%11){{.*}}-> tensor<3xui16>
// CHECK-NEXT:   %13 = "stablehlo.convert"(%12){{.*}}-> tensor<3xui32>
// CHECK-NEXT:   %14 = "stablehlo.constant"(){{.*}}-> tensor<3xui32>
// CHECK-NEXT:   %15 = "stablehlo.shift_left"(%13, %14){{.*}}-> tensor<3xui32>
// CHECK-NEXT:   %16 = "stablehlo.slice"(%10){{.*}}-> tensor<3x1xui16>
// CHECK-NEXT:   %17 = "stablehlo.reshape"(%16){{.*}}-> tensor<3xui16>
// CHECK-NEXT:   %18 = "stablehlo.convert"(%17){{.*}}-> tensor<3xui32>
// CHECK-NEXT:   %19 = "stablehlo.constant"(){{.*}}-> tensor<3xui32>
// CHECK-NEXT:   %20 = "stablehlo.shift_left"(%18, %19){{.*}}-> tensor<3xui32>
// CHECK-NEXT:   %21 = "stablehlo.or"(%15, %20){{.*}}-> tensor<3xui32>
// CHECK-NEXT:   %22 = "stablehlo.bitcast_convert"(%21){{.*}}-> tensor<3xf32>
// CHECK-NEXT:   func.return %9, %22

// -----

// Of the same width it stays.

func.func @main(%0: tensor<3xf32>) -> tensor<3xi32> {
  %1 = "stablehlo.bitcast_convert"(%0) : (tensor<3xf32>) -> tensor<3xi32>
  func.return %1 : tensor<3xi32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %1 = "stablehlo.bitcast_convert"(%0){{.*}}-> tensor<3xi32>
// CHECK-NEXT:   func.return %1

// -----

// The same bytes as elements of another type: a line of them is converted.

func.func @main(%0: tensor<3x4xf16>) -> (tensor<12xi16>, tensor<2x3xf32>) {
  %1 = "hlo.bitcast"(%0) : (tensor<3x4xf16>) -> tensor<12xi16>
  %2 = "hlo.bitcast"(%0) : (tensor<3x4xf16>) -> tensor<2x3xf32>
  func.return %1, %2 : tensor<12xi16>, tensor<2x3xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %1 = "hlo.bitcast"(%0){{.*}}-> tensor<12xf16>
// CHECK-NEXT:   %2 = "stablehlo.bitcast_convert"(%1){{.*}}-> tensor<12xi16>
// CHECK-NEXT:   %3 = "hlo.bitcast"(%2){{.*}}-> tensor<12xi16>
// CHECK-NEXT:   %4 = "hlo.bitcast"(%0){{.*}}-> tensor<6x2xf16>
// CHECK-NEXT:   %5 = "stablehlo.bitcast_convert"(%4){{.*}}-> tensor<6x2xui16>
// CHECK:        %17 = "stablehlo.bitcast_convert"(%16){{.*}}-> tensor<6xf32>
// CHECK-NEXT:   %18 = "hlo.bitcast"(%17){{.*}}-> tensor<2x3xf32>
// CHECK-NEXT:   func.return %3, %18
