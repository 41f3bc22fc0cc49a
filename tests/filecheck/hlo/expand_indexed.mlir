// RUN: %opt -p expand-indexed %s --split-input-file | filecheck %s

// An index per dimension that has room; a gather's indices come from one tensor.

func.func @main(%0: tensor<5x4xf32>, %1: tensor<i32>, %2: tensor<i32>, %3: tensor<3x1xi32>) -> (tensor<2x4xf32>, tensor<3x4xf32>) {
  %4 = "stablehlo.dynamic_slice"(%0, %1, %2) <{slice_sizes = array<i64: 2, 4>}> : (tensor<5x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
  %5 = "stablehlo.gather"(%0, %3) <{dimension_numbers = #hlo.struct<"#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>">, slice_sizes = array<i64: 1, 4>}> : (tensor<5x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  func.return %4, %5 : tensor<2x4xf32>, tensor<3x4xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %4 = "hlo.read_at"(%0, %1){{.*}}-> tensor<2x4xf32>
// CHECK-NEXT:   %5 = "hlo.read_at"(%0, %3){{.*}}-> tensor<3x4xf32>
// CHECK-NEXT:   func.return %4, %5

// -----

// A scatter writes its windows one after the other.

func.func @main(%0: tensor<5x4xf32>, %1: tensor<3x1xi32>, %2: tensor<3x4xf32>) -> tensor<5x4xf32> {
  %3 = "stablehlo.scatter"(%0, %1, %2) <{indices_are_sorted = false, scatter_dimension_numbers = #hlo.struct<"#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>">, unique_indices = false}> ({
  ^bb0(%4: tensor<f32>, %5: tensor<f32>):
    %6 = "stablehlo.add"(%4, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%6) : (tensor<f32>) -> ()
  }) : (tensor<5x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<5x4xf32>
  func.return %3 : tensor<5x4xf32>
}

// CHECK:      func.func @main(
// CHECK:         "hlo.write_at"
// CHECK:         "stablehlo.add"{{.*}}-> tensor<f32>
// CHECK:           func.return %3
