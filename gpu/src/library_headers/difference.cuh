typedef decltype((char*)0 - (char*)0) ptrdiff_t;
namespace std { using ::ptrdiff_t; typedef decltype(sizeof(0)) size_t; typedef decltype(nullptr) nullptr_t; }
