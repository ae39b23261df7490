// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgraderun

import (
	"fmt"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
)

// step is a step of the upgrade: its minor version, and its exact version.
type step struct {
	minor apilifecycle.Version
	exact string
}

// stepsOf returns the steps of an upgrade over minor versions. A plan that ends with the named version has the exact
// versions, and the minor versions on the way. The last version of a minor version counts.
func stepsOf(running, named string, minors []apilifecycle.Version, plan []string) []step {
	if len(minors) == 0 {
		return nil
	}
	if len(plan) > 0 && strings.TrimPrefix(plan[len(plan)-1], "v") == strings.TrimPrefix(named, "v") {
		return stepsIn(plan, minors)
	}
	steps := make([]step, 0, len(minors))
	for i, minor := range minors {
		last := ""
		if i == len(minors)-1 {
			last = named
		}
		steps = append(steps, step{minor, exact(running, minor, last)})
	}
	return steps
}

// stepsIn returns the steps of a plan, at most one for each minor version on the way.
func stepsIn(plan []string, minors []apilifecycle.Version) []step {
	var steps []step
	first, last := minors[0], minors[len(minors)-1]
	for _, version := range plan {
		minor, err := apilifecycle.ParseVersion(version)
		if err != nil || minor.Compare(first) < 0 || minor.Compare(last) > 0 {
			continue // The cluster runs this minor version already, or the plan is malformed.
		}
		first = minor
		if n := len(steps); n > 0 && steps[n-1].minor == minor {
			steps[n-1].exact = version
			continue
		}
		steps = append(steps, step{minor, version})
	}
	return steps
}

// exact returns the exact version of Kubernetes for a step: the named version for the last step, otherwise the first
// patch version. It has the suffix of the running version, because a vendor appends one to each version: a kubeVersion
// without a prerelease excludes them. A suffix that the user names takes precedence.
func exact(running string, minor apilifecycle.Version, named string) string {
	suffix := apilifecycle.SuffixOf(running)
	parsed, err := utilversion.ParseGeneric(named)
	if err != nil {
		return minor.String() + ".0" + suffix
	}
	if full, err := utilversion.ParseSemantic(named); err == nil && full.PreRelease()+full.BuildMetadata() != "" {
		return "v" + full.String()
	}
	return fmt.Sprintf("%s.%d%s", minor, parsed.Patch(), suffix)
}
