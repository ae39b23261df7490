// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

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
		"OwnerReferencesPermissionEnforcement requires it of clients that set blockOwnerDeletion",
}

// wholeSuite reports whether all tests run: the flags select no subset.
func wholeSuite() bool {
	given := func(name string) string { return flag.Lookup(name).Value.String() }
	return slices.Contains([]string{"", "."}, given("test.run")) && given("test.skip") == "" && given("test.list") == ""
}

// onlyUsedPermissions returns an error that names permissions of the manager that no test needed. Call it after all
// tests.
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
