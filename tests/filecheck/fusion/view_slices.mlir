// RUN: %opt -p view-slices %s | filecheck %s
// RUN: %opt -p view-slices,plan-fusions,emit-fusions %s | filecheck %s --check-prefix=LAUNCH

// What a turn takes of all weights is a view: the kernel reads it where it is. What the program also writes, and what is a result as
// it is, is none; nor are rows that are apart in memory.
func.func @main(%all: tensor<12x4x8xf32>, %cache: tensor<5x4xf32>, %x0: tensor<4xf32>) -> (tensor<4xf32>, tensor<5x4xf32>, tensor<8xf32>) {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %i0, %x1, %c1 = "stablehlo.while"(%zero, %x0, %cache) ({
  ^bb0(%i: tensor<i32>, %x: tensor<4xf32>, %c: tensor<5x4xf32>):
    %five = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "BQAAAA==">}> : () -> tensor<i32>
    %go = "stablehlo.compare"(%i, %five) <{comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%go) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %x: tensor<4xf32>, %c: tensor<5x4xf32>):
    %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
    %old = "hlo.read_at"(%c, %i) <{map = #xla.indexing_map<"(d0, d1) -> (d0, d1), domain: d0 in [0, 0], d1 in [0, 3]">, index_maps = [#xla.indexing_map<"(d0, d1) -> (), domain: d0 in [0, 0], d1 in [0, 3]">], dims = array<i64: 0>, rooms = array<i64: 4>}> : (tensor<5x4xf32>, tensor<i32>) -> tensor<1x4xf32>
    %w = "hlo.read_at"(%all, %i) <{map = #xla.indexing_map<"(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 7]">, index_maps = [#xla.indexing_map<"(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 7]">], dims = array<i64: 0>, rooms = array<i64: 11>}> : (tensor<12x4x8xf32>, tensor<i32>) -> tensor<1x4x8xf32>
    %v = "stablehlo.reshape"(%w) : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    %wT = "stablehlo.slice"(%all) <{start_indices = array<i64: 3, 0, 0>, limit_indices = array<i64: 4, 4, 8>, strides = array<i64: 1, 1, 1>}> : (tensor<12x4x8xf32>) -> tensor<1x4x8xf32>
    %u = "stablehlo.reshape"(%wT) : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    %h = "stablehlo.dot_general"(%x, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>">}> : (tensor<4xf32>, tensor<4x8xf32>) -> tensor<8xf32>
    %y = "stablehlo.dot_general"(%u, %h) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
    %o = "stablehlo.reshape"(%old) : (tensor<1x4xf32>) -> tensor<4xf32>
    %z = "stablehlo.add"(%y, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %row = "stablehlo.reshape"(%z) : (tensor<4xf32>) -> tensor<1x4xf32>
    %new = "stablehlo.dynamic_update_slice"(%c, %row, %i, %zero) : (tensor<5x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<5x4xf32>
    %j = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%j, %z, %new) : (tensor<i32>, tensor<4xf32>, tensor<5x4xf32>) -> ()
  }) {hlo.trip_count = 5 : i64} : (tensor<i32>, tensor<4xf32>, tensor<5x4xf32>) -> (tensor<i32>, tensor<4xf32>, tensor<5x4xf32>)
  %columns = "stablehlo.slice"(%all) <{start_indices = array<i64: 0, 1, 0>, limit_indices = array<i64: 12, 2, 8>, strides = array<i64: 12, 1, 1>}> : (tensor<12x4x8xf32>) -> tensor<1x1x8xf32>
  %part = "stablehlo.reshape"(%columns) : (tensor<1x1x8xf32>) -> tensor<8xf32>
  %given = "stablehlo.slice"(%all) <{start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 12, 1, 8>, strides = array<i64: 1, 1, 1>}> : (tensor<12x4x8xf32>) -> tensor<12x1x8xf32>
  func.return %x1, %c1, %part : tensor<4xf32>, tensor<5x4xf32>, tensor<8xf32>
}

// CHECK:      "stablehlo.while"
// CHECK:      ^bb0(%[[I:.*]]: tensor<i32>, %[[X:.*]]: tensor<4xf32>, %[[C:.*]]: tensor<5x4xf32>):
// CHECK:      ^bb0(%[[I:.*]]: tensor<i32>, %[[X:.*]]: tensor<4xf32>, %[[C:.*]]: tensor<5x4xf32>):
// CHECK-NEXT:   %[[U:.*]] = "hlo.fusion"(%{{.*}}) <{kind = "kLoop", fusion_name = "slice_view"}>
// CHECK:          "stablehlo.slice"
// CHECK:        %[[V:.*]] = "hlo.fusion"(%{{.*}}, %[[I]]) <{kind = "kLoop", fusion_name = "slice_view"}>
// CHECK:          "hlo.read_at"
// CHECK:          "stablehlo.reshape"
// CHECK:        "hlo.read_at"(%[[C]], %[[I]])
// CHECK:        "stablehlo.dot_general"(%[[X]], %[[V]])
// CHECK:        "stablehlo.dot_general"(%[[U]],
// CHECK-NOT:  slice_view

// LAUNCH:     launch.repeat
// LAUNCH:       launch.view %{{.*}} {offset = 96 : i64} : tensor<12x4x8xf32> -> tensor<4x8xf32>
// LAUNCH:       launch.view %{{.*}} at(%{{.*}} : tensor<i32>) {steps = array<i64: 32>, rooms = array<i64: 11>} : tensor<12x4x8xf32> -> tensor<4x8xf32>
// LAUNCH-NOT: launch.view
