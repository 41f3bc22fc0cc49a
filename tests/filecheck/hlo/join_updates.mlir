// RUN: %opt -p join-updates %s --split-input-file | filecheck %s

// Two lines with updates of their own; without a combiner the last update of a place stays.

func.func @lines(%0: tensor<2x500xf32>, %1: tensor<2x50xf32>, %2: tensor<2x50x1xi32>) -> tensor<2x500xf32> {
  %3 = "hlo.write_at"(%0, %1, %2) <{map = #xla.indexing_map<"(d0, d1) -> (d0, 0), domain: d0 in [0, 1], d1 in [0, 49]">, index_maps = [#xla.indexing_map<"(d0, d1) -> (d0, d1, 0), domain: d0 in [0, 1], d1 in [0, 49]">], dims = array<i64: 1>, rooms = array<i64: 499>, in_order = array<i64: 0, 1>}> : (tensor<2x500xf32>, tensor<2x50xf32>, tensor<2x50x1xi32>) -> tensor<2x500xf32>
  func.return %3 : tensor<2x500xf32>
}

// CHECK:      func.func @lines(%[[X:.*]]: tensor<2x500xf32>, %[[U:.*]]: tensor<2x50xf32>, %[[I:.*]]: tensor<2x50x1xi32>)
// CHECK-NEXT:   "hlo.fusion"(%[[X]], %[[I]], %[[U]])
// CHECK:          "hlo.join_at"(%{{.*}}, %{{.*}}, %{{.*}}) <{places = 1 : i64, columns = 2 : i64}> : (tensor<2x500xf32>, tensor<2x50x1xi32>, tensor<2x50xf32>) -> tensor<2x500xf32>

// -----

// Ones that are counted in parts, which begin with nothing; what there are too few of is at no place.

func.func @parts(%0: tensor<100xi32>, %1: tensor<4095xi32>) -> tensor<100xi32> {
  %2 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4095xi32>
  %4 = "hlo.write_at"(%0, %3, %1) <{map = #xla.indexing_map<"(d0) -> (0), domain: d0 in [0, 4094]">, index_maps = [#xla.indexing_map<"(d0) -> (d0), domain: d0 in [0, 4094]">], dims = array<i64: 0>, rooms = array<i64: 99>, in_order = array<i64: 0>}> ({
  ^bb0(%5: tensor<i32>, %6: tensor<i32>):
    %7 = "stablehlo.add"(%5, %6) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%7) : (tensor<i32>) -> ()
  }) : (tensor<100xi32>, tensor<4095xi32>, tensor<4095xi32>) -> tensor<100xi32>
  func.return %4 : tensor<100xi32>
}

// CHECK:      func.func @parts(%[[X:.*]]: tensor<100xi32>, %[[I:.*]]: tensor<4095xi32>)
// CHECK:        %[[PADDED:.*]] = "stablehlo.pad"
// CHECK:        %[[P:.*]] = "hlo.fusion"(%[[PADDED]])
// CHECK:          %[[NONE:.*]] = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<1x{{[0-9]+}}x100x1xi32>
// CHECK:          %[[ONE:.*]] = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}>
// CHECK:          "hlo.join_at"(%[[NONE]], %{{.*}}, %[[ONE]]) <{places = 2 : i64, columns = 3 : i64}> ({
// CHECK:        %[[R:.*]] = "stablehlo.reduce"(%[[P]], %{{.*}}) <{dimensions = array<i64: 1>}> ({
// CHECK:        %[[S:.*]] = "stablehlo.reshape"(%[[R]]) : (tensor<1x100x1xi32>) -> tensor<100xi32>
// CHECK:        "stablehlo.add"(%[[X]], %[[S]])

// -----

// A row's number that is a count is no index; the other one is an unsigned integer, cut off where it is none of a place.

func.func @counted(%0: tensor<40x90xi32>, %1: tensor<40xi32>, %2: tensor<40x1xui32>) -> tensor<40x90xi32> {
  %3 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<40xui32>
  %4 = "stablehlo.reshape"(%3) : (tensor<40xui32>) -> tensor<40x1xui32>
  %5 = "stablehlo.concatenate"(%4, %2) <{dimension = 1 : i64}> : (tensor<40x1xui32>, tensor<40x1xui32>) -> tensor<40x2xui32>
  %6 = "hlo.write_at"(%0, %1, %5, %5) <{map = #xla.indexing_map<"(d0) -> (0, 0), domain: d0 in [0, 39]">, index_maps = [#xla.indexing_map<"(d0) -> (d0, 0), domain: d0 in [0, 39]">, #xla.indexing_map<"(d0) -> (d0, 1), domain: d0 in [0, 39]">], dims = array<i64: 0, 1>, rooms = array<i64: 39, 89>, in_order = array<i64: 0>}> : (tensor<40x90xi32>, tensor<40xi32>, tensor<40x2xui32>, tensor<40x2xui32>) -> tensor<40x90xi32>
  func.return %6 : tensor<40x90xi32>
}

// CHECK:      func.func @counted(%[[X:.*]]: tensor<40x90xi32>, %[[U:.*]]: tensor<40xi32>, %[[I:.*]]: tensor<40x1xui32>)
// CHECK:        %[[M:.*]] = "stablehlo.minimum"(%[[I]], %{{.*}}) : (tensor<40x1xui32>, tensor<40x1xui32>) -> tensor<40x1xui32>
// CHECK:        %[[C:.*]] = "stablehlo.convert"(%[[M]])
// CHECK:        "hlo.fusion"(%[[X]], %[[C]], %[[U]])
// CHECK:          "hlo.join_at"{{.*}} <{places = 1 : i64, columns = 2 : i64}>

// -----

// What does not fit the scratchpad, few updates, and combiners of several operations stay.

func.func @kept(%0: tensor<900000xf32>, %1: tensor<200xf32>, %2: tensor<200xi32>, %3: tensor<300xf32>, %4: tensor<3xf32>, %5: tensor<3xi32>) -> (tensor<900000xf32>, tensor<300xf32>, tensor<300xf32>) {
  %6 = "hlo.write_at"(%0, %1, %2) <{map = #xla.indexing_map<"(d0) -> (0), domain: d0 in [0, 199]">, index_maps = [#xla.indexing_map<"(d0) -> (d0), domain: d0 in [0, 199]">], dims = array<i64: 0>, rooms = array<i64: 899999>, in_order = array<i64: 0>}> : (tensor<900000xf32>, tensor<200xf32>, tensor<200xi32>) -> tensor<900000xf32>
  %7 = "hlo.write_at"(%3, %4, %5) <{map = #xla.indexing_map<"(d0) -> (0), domain: d0 in [0, 2]">, index_maps = [#xla.indexing_map<"(d0) -> (d0), domain: d0 in [0, 2]">], dims = array<i64: 0>, rooms = array<i64: 299>, in_order = array<i64: 0>}> : (tensor<300xf32>, tensor<3xf32>, tensor<3xi32>) -> tensor<300xf32>
  %8 = "hlo.write_at"(%3, %1, %2) <{map = #xla.indexing_map<"(d0) -> (0), domain: d0 in [0, 199]">, index_maps = [#xla.indexing_map<"(d0) -> (d0), domain: d0 in [0, 199]">], dims = array<i64: 0>, rooms = array<i64: 299>, in_order = array<i64: 0>}> ({
  ^bb0(%9: tensor<f32>, %10: tensor<f32>):
    %11 = "stablehlo.negate"(%10) : (tensor<f32>) -> tensor<f32>
    %12 = "stablehlo.add"(%9, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%12) : (tensor<f32>) -> ()
  }) : (tensor<300xf32>, tensor<200xf32>, tensor<200xi32>) -> tensor<300xf32>
  func.return %6, %7, %8 : tensor<900000xf32>, tensor<300xf32>, tensor<300xf32>
}

// CHECK:      func.func @kept(
// CHECK-NOT:    hlo.join_at
// CHECK:        func.return

// -----

// An update of each of equal elements' lines is chosen by whoever reads the result, where its number is that of the place.

func.func @chosen(%0: tensor<40xf32>, %1: tensor<40x1xi32>) -> tensor<40x90xf32> {
  %2 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<40x90xf32>
  %4 = "hlo.write_at"(%3, %0, %1) <{map = #xla.indexing_map<"(d0) -> (d0, 0), domain: d0 in [0, 39]">, index_maps = [#xla.indexing_map<"(d0) -> (d0, 0), domain: d0 in [0, 39]">], dims = array<i64: 1>, rooms = array<i64: 89>, in_order = array<i64: 0>}> ({
  ^bb0(%5: tensor<f32>, %6: tensor<f32>):
    %7 = "stablehlo.add"(%5, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%7) : (tensor<f32>) -> ()
  }) : (tensor<40x90xf32>, tensor<40xf32>, tensor<40x1xi32>) -> tensor<40x90xf32>
  func.return %4 : tensor<40x90xf32>
}

// CHECK:      func.func @chosen(%[[U:.*]]: tensor<40xf32>, %[[I:.*]]: tensor<40x1xi32>)
// CHECK:        %[[NUMBERS:.*]] = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<40x90xf32>
// CHECK:        "stablehlo.convert"(%[[I]])
// CHECK:        %[[ADDED:.*]] = "stablehlo.add"(%{{.*}}, %{{.*}}) : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>
// CHECK-NEXT:   %[[NEW:.*]] = "stablehlo.broadcast_in_dim"(%[[ADDED]])
// CHECK-NEXT:   %[[THERE:.*]] = "stablehlo.compare"(%[[NUMBERS]], %{{.*}}) <{comparison_direction = "EQ"}>
// CHECK-NEXT:   "stablehlo.select"(%[[THERE]], %[[NEW]], %{{.*}})
