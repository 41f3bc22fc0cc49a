// RUN: %hlo2tx8 compile --until=loops %s | filecheck %s
// RUN: %hlo2tx8 compile --print_program %s | filecheck %s --check-prefix=PROGRAM
// RUN: %hlo2tx8 run %s

// A row per turn, written by the kernel itself in the output's own slot; the number of the turn is in a register, not in a slot.
module @update {
  func.func @main(%x: tensor<8x40xi32>) -> tensor<8x40xi32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %nothing = stablehlo.constant dense<0> : tensor<8x40xi32>
    %r:2 = stablehlo.while(%i = %zero, %rows = %nothing) : tensor<i32>, tensor<8x40xi32>
    cond {
      %eight = stablehlo.constant dense<8> : tensor<i32>
      %more = stablehlo.compare LT, %i, %eight : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 40] : (tensor<8x40xi32>, tensor<i32>, tensor<i32>) -> tensor<1x40xi32>
      %square = stablehlo.multiply %row, %row : tensor<1x40xi32>
      %new = stablehlo.dynamic_update_slice %rows, %square, %i, %zero
        : (tensor<8x40xi32>, tensor<1x40xi32>, tensor<i32>, tensor<i32>) -> tensor<8x40xi32>
      stablehlo.return %next, %new : tensor<i32>, tensor<8x40xi32>
    }
    return %r#1 : tensor<8x40xi32>
  }
}

// CHECK: launch.repeat 8 : i64(%{{.*}}, %{{.*}}) do {
// CHECK: %[[ROW:.*]] = launch.kernel @multiply_fusion
// CHECK: launch.update %{{.*}} with %[[ROW]] at(%{{.*}}, %{{.*}})
// CHECK: launch.yield

// PROGRAM: slot 1: output 0 int32[8, 40]
// PROGRAM-NOT: scratch {{.*}} int32[8, 40]
// PROGRAM: KC_loop {{.*}} hi=8
// PROGRAM-NOT: KC_load_scalar
// PROGRAM: WDMA_store.int32 {{.*}} slot=1
// PROGRAM-NOT: WDMA_store
// PROGRAM: KC_end
