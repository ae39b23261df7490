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

package e2e

import (
	"errors"
	"flag"
	"os"
	"slices"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/permissions"
)

// unseenPermissions are permissions that the manager needs and that audit logs do not show, with the reasons.
var unseenPermissions = map[permissions.Permission]string{
	{Group: "addons.cluster.x-k8s.io", Resource: "helmops/finalizers", Verb: "update"}: "the admission plugin " +
		"OwnerReferencesPermissionEnforcement demands it of whoever sets blockOwnerDeletion",
}

// wholeSuite reports whether all tests run: the flags select none of them.
func wholeSuite() bool {
	given := func(name string) string { return flag.Lookup(name).Value.String() }
	return slices.Contains([]string{"", "."}, given("test.run")) && given("test.skip") == "" && given("test.list") == ""
}

// onlyUsedPermissions returns an error that names permissions of the manager that no test needed. Call it after all tests.
func onlyUsedPermissions() (err error) {
	env, err := suite.installed()
	if err != nil {
		return err
	}
	components, err := os.Open(env.Components)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, components.Close()) }()
	granted, err := permissions.Granted(components, environment.Namespace, environment.ServiceAccount)
	if err != nil {
		return err
	}
	return suite.used.Check(granted, unseenPermissions)
}
