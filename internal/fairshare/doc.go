/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package fairshare shares a number of places between holders, tenants for example, so that none of them can take all.
//
// [Pool] counts who holds places and says who may have one more. A holder has at most three quarters of what the others leave, and never
// takes the last free place if it holds one already. So whoever comes later finds a place, however many the first holder asks for. The price is that
// these places are idle while nobody else needs them.
//
// [Queue] keeps the order of those who wait for a place: holders take turns, whoever asks for more, and one that was away for a while has no more
// turns than the others when it is back. It is start-time fair queuing with items of one size.
//
// Neither knows a clock or is safe for concurrent use: the caller locks.
package fairshare
