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

// Package dialguard refuses connections to addresses that no tenant should reach through the manager: its own machine, and what clouds
// tell machines at link-local addresses. It looks at the address that is dialled, after names were resolved, so no name leads around it.
//
// # Contract
//
//   - [IsMetadata] addresses are link-local, or those at which clouds tell machines their secrets. [IsLocal] addresses are these, loopback,
//     unspecified and multicast ones. Both see through IPv4 addresses in IPv6 form, NAT64 included.
//   - [Guard] dials what its Refuse function does not refuse. A proxy that Trusted chose, which is that of the manager's own environment, is
//     dialled wherever it is.
//   - What a proxy dials, it decides itself. [IsLocalName] recognizes host names and addresses in URLs that mean its own machine.
package dialguard
