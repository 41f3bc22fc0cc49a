// RUN: %opt -p emit-fusions %s --split-input-file | filecheck %s

// A fusion becomes the launch of a kernel module; equal ones share it, and of what it reads it may write in the place.

func.func @main(%a: tensor<40xf32>) -> tensor<40xf32> {
  %0 = "hlo.fusion"(%a) <{kind = "kLoop", fusion_name = "f"}> ({
  ^bb0(%x: tensor<40xf32>):
    %y = "stablehlo.exponential"(%x) : (tensor<40xf32>) -> tensor<40xf32>
    "stablehlo.return"(%y) : (tensor<40xf32>) -> ()
  }) : (tensor<40xf32>) -> tensor<40xf32>
  %1 = "hlo.fusion"(%0) <{kind = "kLoop", fusion_name = "g"}> ({
  ^bb0(%x: tensor<40xf32>):
    %y = "stablehlo.exponential"(%x) : (tensor<40xf32>) -> tensor<40xf32>
    "stablehlo.return"(%y) : (tensor<40xf32>) -> ()
  }) : (tensor<40xf32>) -> tensor<40xf32>
  func.return %1 : tensor<40xf32>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<40xf32>)
// CHECK-NEXT:   %[[F:.*]] = launch.kernel @f(%[[A]]) {group = 0 : i64, replaces = array<i64: 0>}
// CHECK-NEXT:   %[[G:.*]] = launch.kernel @f(%[[F]]) {group = 1 : i64, replaces = array<i64: 0>}
// CHECK-NEXT:   func.return %[[G]]
// CHECK:      builtin.module @f {
// CHECK-NEXT:   func.func @f(%p0: tensor<40xf32>, %r0: tensor<40xf32>) -> tensor<40xf32> attributes {xla.entry} {
// CHECK:          xla.loop (%tile){{.*}}iter_args(%{{.*}} = %r0)
// CHECK-NEXT:       %[[E:.*]] = xla.pure_call @[[ELEMENT:.*]](%p0, %dim0)
// CHECK-NEXT:       tensor.insert %[[E]] into
// CHECK:        func.func private @[[ELEMENT]](%p0: tensor<40xf32>, %{{.*}}: index) -> f32
// CHECK:          math.exp
// CHECK-NOT:  func.func @
// CHECK:      {{//}} -----

// -----

// A fusion that only says another shape is a view; a loop whose turns are known repeats, without its condition.

func.func @main(%a: tensor<6xf32>) -> tensor<2x3xf32> {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %r0, %r1 = "stablehlo.while"(%zero, %a) ({
  ^bb0(%i: tensor<i32>, %x: tensor<6xf32>):
    %more = "hlo.fusion"(%i) <{kind = "kLoop", fusion_name = "more"}> ({
    ^bb1(%j: tensor<i32>):
      %less = "stablehlo.compare"(%j, %j) <{comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%less) : (tensor<i1>) -> ()
    }) : (tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%more) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %x: tensor<6xf32>):
    %y = "hlo.fusion"(%x) <{kind = "kLoop", fusion_name = "body"}> ({
    ^bb1(%z: tensor<6xf32>):
      %n = "stablehlo.negate"(%z) : (tensor<6xf32>) -> tensor<6xf32>
      "stablehlo.return"(%n) : (tensor<6xf32>) -> ()
    }) : (tensor<6xf32>) -> tensor<6xf32>
    "stablehlo.return"(%i, %y) : (tensor<i32>, tensor<6xf32>) -> ()
  }) {hlo.trip_count = 7 : i64} : (tensor<i32>, tensor<6xf32>) -> (tensor<i32>, tensor<6xf32>)
  %v = "hlo.fusion"(%r1) <{kind = "kLoop", fusion_name = "view"}> ({
  ^bb0(%x: tensor<6xf32>):
    %y = "stablehlo.reshape"(%x) : (tensor<6xf32>) -> tensor<2x3xf32>
    "stablehlo.return"(%y) : (tensor<2x3xf32>) -> ()
  }) : (tensor<6xf32>) -> tensor<2x3xf32>
  func.return %v : tensor<2x3xf32>
}

// CHECK:      %{{.*}}, %[[R:.*]] = launch.repeat 7 : i64(
// CHECK:        %[[Y:.*]] = launch.kernel @body(
// CHECK-NEXT:   launch.yield %{{.*}}, %[[Y]]
// CHECK:      %[[V:.*]] = launch.view %[[R]]
// CHECK-NEXT: func.return %[[V]]
