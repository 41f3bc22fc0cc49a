// RUN: %opt -p expand-one-window %s --split-input-file | filecheck %s

// What is there stays where the window would lie outside.

func.func @main(%0: tensor<5x4xf32>, %1: tensor<1xi32>, %2: tensor<4xf32>) -> tensor<5x4xf32> {
  %3 = "stablehlo.scatter"(%0, %1, %2) <{indices_are_sorted = false, scatter_dimension_numbers = #hlo.struct<"#stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>">, unique_indices = false}> ({
  ^bb0(%4: tensor<f32>, %5: tensor<f32>):
    "stablehlo.return"(%5) : (tensor<f32>) -> ()
  }) : (tensor<5x4xf32>, tensor<1xi32>, tensor<4xf32>) -> tensor<5x4xf32>
  func.return %3 : tensor<5x4xf32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.dynamic_slice"{{.*}}-> tensor<1x4xf32>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<1x4xf32>
// CHECK:         "stablehlo.dynamic_update_slice"{{.*}}-> tensor<5x4xf32>
// CHECK:           func.return %16

// -----

// Several windows stay a scatter.

func.func @main(%0: tensor<5x4xf32>, %1: tensor<3x1xi32>, %2: tensor<3x4xf32>) -> tensor<5x4xf32> {
  %3 = "stablehlo.scatter"(%0, %1, %2) <{indices_are_sorted = false, scatter_dimension_numbers = #hlo.struct<"#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>">, unique_indices = false}> ({
  ^bb0(%4: tensor<f32>, %5: tensor<f32>):
    %6 = "stablehlo.add"(%4, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%6) : (tensor<f32>) -> ()
  }) : (tensor<5x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<5x4xf32>
  func.return %3 : tensor<5x4xf32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.scatter"
// CHECK:         "stablehlo.add"{{.*}}-> tensor<f32>
// CHECK:           func.return %3
