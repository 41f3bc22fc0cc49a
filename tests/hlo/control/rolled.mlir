// RUN: %hlo2tx8 compile --until=loops %s | filecheck %s
// RUN: %hlo2tx8 compile --print_program %s | filecheck %s --check-prefix=PROGRAM
// RUN: %hlo2tx8 run %s

// A counted loop inside of one that is not: each body is there once, state that no turn changes is no state.
module @rolled {
  func.func @main(%n: tensor<i32>, %x: tensor<40xi32>, %w: tensor<40xi32>) -> tensor<40xi32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %fifteen = stablehlo.constant dense<15> : tensor<i32>
    %few = stablehlo.and %n, %fifteen : tensor<i32>
    %r:3 = stablehlo.while(%i = %zero, %v = %x, %u = %w) : tensor<i32>, tensor<40xi32>, tensor<40xi32>
    cond {
      %more = stablehlo.compare LT, %i, %few : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %s:2 = stablehlo.while(%j = %zero, %y = %v) : tensor<i32>, tensor<40xi32>
      cond {
        %five = stablehlo.constant dense<5> : tensor<i32>
        %more = stablehlo.compare LT, %j, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %j, %one : tensor<i32>
        %turn = stablehlo.broadcast_in_dim %j, dims = [] : (tensor<i32>) -> tensor<40xi32>
        %product = stablehlo.multiply %y, %u : tensor<40xi32>
        %sum = stablehlo.add %product, %turn : tensor<40xi32>
        stablehlo.return %next, %sum : tensor<i32>, tensor<40xi32>
      }
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %s#1, %u : tensor<i32>, tensor<40xi32>, tensor<40xi32>
    }
    return %r#1 : tensor<40xi32>
  }
}

// CHECK: func.func @main(%{{.*}}: tensor<i32>, %{{.*}}: tensor<40xi32>, %[[W:.*]]: tensor<40xi32>)
// CHECK: launch.while(%{{.*}}, %{{.*}}) cond {
// CHECK: launch.kernel
// CHECK-NEXT: launch.yield
// CHECK: do {
// CHECK: launch.repeat 5 : i64(%{{.*}}, %{{.*}}) do {
// CHECK: launch.kernel @{{.*}}(%{{.*}}, %[[W]])
// CHECK: launch.yield
// CHECK: launch.yield

// PROGRAM: KC_loop {{.*}} hi=9223372036854775807
// PROGRAM: KC_load_scalar.pred
// PROGRAM-NEXT: KC_exit
// PROGRAM: KC_loop {{.*}} hi=5
// PROGRAM: KC_end
// PROGRAM: KC_end
