// RUN: %hlo2tx8 compile --until=loops %s | filecheck %s
// RUN: %hlo2tx8 compile --print_program %s | filecheck %s --check-prefix=PROGRAM
// RUN: %hlo2tx8 run --level=all %s

// A function that is not to be inlined is there once, and called where it was: in @main, in a loop, by another function.
module @calls {
  func.func private @wave(%x: tensor<40xf32>, %y: tensor<40xf32>) -> (tensor<40xf32>, tensor<40xf32>) attributes {no_inline} {
    %0 = stablehlo.sine %x : tensor<40xf32>
    %1 = stablehlo.multiply %0, %y : tensor<40xf32>
    return %1, %0 : tensor<40xf32>, tensor<40xf32>
  }
  func.func private @twice(%x: tensor<40xf32>) -> tensor<40xf32> attributes {no_inline} {
    %0:2 = call @wave(%x, %x) : (tensor<40xf32>, tensor<40xf32>) -> (tensor<40xf32>, tensor<40xf32>)
    %1:2 = call @wave(%0#1, %0#0) : (tensor<40xf32>, tensor<40xf32>) -> (tensor<40xf32>, tensor<40xf32>)
    return %1#0 : tensor<40xf32>
  }
  func.func @main(%x: tensor<40xf32>) -> (tensor<40xf32>, tensor<40xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<40xf32>
    cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %new = func.call @twice(%v) : (tensor<40xf32>) -> tensor<40xf32>
      stablehlo.return %next, %new : tensor<i32>, tensor<40xf32>
    }
    %last = call @twice(%r#1) : (tensor<40xf32>) -> tensor<40xf32>
    return %r#1, %last : tensor<40xf32>, tensor<40xf32>
  }
}

// CHECK:      func.func private @wave(%0: tensor<40xf32>, %1: tensor<40xf32>)
// CHECK:        launch.kernel
// CHECK:      func.func private @twice
// CHECK-NEXT:   func.call @wave(%0, %0)
// CHECK-NEXT:   func.call @wave
// CHECK:      func.func @main
// CHECK:        launch.repeat 3
// CHECK:          func.call @twice
// CHECK:        func.call @twice

// PROGRAM:      KC_function                          number=0
// PROGRAM:        CGRATensor_TransOp_V_V_sin
// PROGRAM-NOT:  CGRATensor_TransOp_V_V_sin
// PROGRAM:        KC_barrier
// PROGRAM-NEXT: KC_return
// PROGRAM:      KC_function                          number=1
// PROGRAM:        KC_call                              number=0
// PROGRAM:        KC_call                              number=0
// PROGRAM:      KC_return
// PROGRAM:      KC_loop
// PROGRAM:        KC_call                              number=1
// PROGRAM:      KC_end
// PROGRAM:      KC_call                              number=1
