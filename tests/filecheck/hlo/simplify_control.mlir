// RUN: %opt -p simplify-control %s --split-input-file | filecheck %s

// Barriers go; state that no turn changes is no state; turns that are known are counted.

func.func @main(%a: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %seven = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "BwAAAA==">}> : () -> tensor<i32>
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %b = "stablehlo.optimization_barrier"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %r0, %r1, %r2 = "stablehlo.while"(%zero, %b, %w) ({
  ^bb0(%i: tensor<i32>, %x: tensor<4xf32>, %y: tensor<4xf32>):
    %more = "stablehlo.compare"(%i, %seven) <{comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%more) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %x: tensor<4xf32>, %y: tensor<4xf32>):
    %next = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %p = "stablehlo.multiply"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "stablehlo.return"(%next, %p, %y) : (tensor<i32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>, tensor<4xf32>)
  func.return %r1 : tensor<4xf32>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>)
// CHECK-NOT:    optimization_barrier
// CHECK:        %{{.*}}, %[[R:.*]] = "stablehlo.while"(%{{.*}}, %[[A]]) ({
// CHECK-NEXT:   ^bb0(%{{.*}}: tensor<i32>, %{{.*}}: tensor<4xf32>):
// CHECK:        ^bb0(%{{.*}}: tensor<i32>, %[[X:.*]]: tensor<4xf32>):
// CHECK:          "stablehlo.multiply"(%[[X]], %[[W]])
// CHECK:        }) {hlo.trip_count = 7 : i64}
// CHECK:        func.return %[[R]]

// -----

// A branch that is known is taken.

func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %r = "stablehlo.case"(%one) ({
    %0 = "stablehlo.negate"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    "stablehlo.return"(%0) : (tensor<4xf32>) -> ()
  }, {
    %1 = "stablehlo.abs"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    "stablehlo.return"(%1) : (tensor<4xf32>) -> ()
  }) : (tensor<i32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<4xf32>)
// CHECK-NOT:  stablehlo.case
// CHECK:      %[[R:.*]] = "stablehlo.abs"(%[[A]])
// CHECK:      func.return %[[R]]

// -----

// Three turns that compute each element by itself become one after the other: their state need not be written.

func.func @main(%0: tensor<64x64xi32>) -> tensor<64x64xi32> {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %2:2 = "stablehlo.while"(%1, %0) ({
  ^bb0(%3: tensor<i32>, %4: tensor<64x64xi32>):
    %5 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AwAAAA==">}> : () -> tensor<i32>
    %6 = "stablehlo.compare"(%3, %5) <{comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%6) : (tensor<i1>) -> ()
  }, {
  ^bb1(%3: tensor<i32>, %4: tensor<64x64xi32>):
    %5 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
    %6 = "stablehlo.add"(%3, %5) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %7 = "stablehlo.multiply"(%4, %4) : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi32>
    "stablehlo.return"(%6, %7) : (tensor<i32>, tensor<64x64xi32>) -> ()
  }) : (tensor<i32>, tensor<64x64xi32>) -> (tensor<i32>, tensor<64x64xi32>)
  func.return %2#1 : tensor<64x64xi32>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<64x64xi32>)
// CHECK-NOT:    stablehlo.while
// CHECK:        %[[B:.*]] = "stablehlo.multiply"(%[[A]], %[[A]])
// CHECK:        %[[C:.*]] = "stablehlo.multiply"(%[[B]], %[[B]])
// CHECK:        %[[D:.*]] = "stablehlo.multiply"(%[[C]], %[[C]])
// CHECK:        func.return %[[D]]
