// simdgroup_matrix: 8x8, two elements a lane. Which two is Metal's secret; the runtime can shuffle it.
#pragma once

namespace metal {

template <class T, int C = 8, int R = 8> struct simdgroup_matrix {
    static_assert(C == 8 && R == 8, "Metal has 8x8 SIMD-group matrices alone");
    vec<T, 2> e;
    simdgroup_matrix() : e(::msl::poison<vec<T, 2>>()) {}
    explicit simdgroup_matrix(T diagonal) {
        for (int k = 0; k < 2; ++k) {
            const int place = ::msl::matrix_place(::msl::lane_index(), k);
            e[k] = place / 8 == place % 8 ? diagonal : static_cast<T>(0);
        }
    }
    vec<T, 2> &thread_elements() { return e; }
    const vec<T, 2> &thread_elements() const { return e; }
};
typedef simdgroup_matrix<float> simdgroup_float8x8;
typedef simdgroup_matrix<half> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat> simdgroup_bfloat8x8;

template <class T, int C, int R> inline simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, C, R> m;
    m.e[0] = m.e[1] = value;
    return m;
}

// Element (row, column) of the matrix is at p[(origin.y + row) * elements_per_row + origin.x + column], or with the
// rows and columns of the memory exchanged.
#define MSL_PLACES                                                    \
    const int place = ::msl::matrix_place(::msl::lane_index(), k);    \
    const ulong y = transpose ? place % 8 : place / 8, x = transpose ? place / 8 : place % 8
template <class T, class P>
inline void simdgroup_load(simdgroup_matrix<T> &m, P *p, ulong elements_per_row = 8, ulong2 origin = 0,
                           bool transpose = false, MSL_HERE) {
    static_assert(is_same<T, decltype(::msl::value_of(*p))>::value, "the element type of memory and matrix must be one");
    ::msl::converge(site);
    for (int k = 0; k < 2; ++k) {
        MSL_PLACES;
        m.e[k] = p[(origin.y + y) * elements_per_row + origin.x + x];
    }
}
template <class T, class P>
inline void simdgroup_store(const simdgroup_matrix<T> &m, P *p, ulong elements_per_row = 8, ulong2 origin = 0,
                            bool transpose = false, MSL_HERE) {
    static_assert(is_same<T, decltype(::msl::value_of(*p))>::value, "the element type of memory and matrix must be one");
    ::msl::converge(site);
    for (int k = 0; k < 2; ++k) {
        MSL_PLACES;
        p[(origin.y + y) * elements_per_row + origin.x + x] = m.e[k];
    }
}
#undef MSL_PLACES

template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D> &d, const simdgroup_matrix<A> &a,
                                          const simdgroup_matrix<B> &b, const simdgroup_matrix<C> &c, MSL_HERE) {
    d.e = ::msl::multiply_accumulate<D>(a.e, b.e, c.e, site);
}
template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D> &d, const simdgroup_matrix<A> &a, const simdgroup_matrix<B> &b, MSL_HERE) {
    d.e = ::msl::multiply_accumulate<D>(a.e, b.e, vec<float, 2>(0.0f), site);
}

} // namespace metal
