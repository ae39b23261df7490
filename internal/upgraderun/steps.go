// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgraderun

import (
	"fmt"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
)

// step is a step of the upgrade, with its minor version and its exact version.
type step struct {
	minor apilifecycle.Version
	exact string
}

// stepsOf returns the steps of an upgrade over minor versions. If a plan ends with the named version, the steps have
// the exact versions of the plan. For each minor version, the last version in the plan applies.
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

// stepsIn returns the steps of a plan, at most one for each minor version of the upgrade.
func stepsIn(plan []string, minors []apilifecycle.Version) []step {
	var steps []step
	first, last := minors[0], minors[len(minors)-1]
	for _, version := range plan {
		minor, err := apilifecycle.ParseVersion(version)
		if err != nil || minor.Compare(first) < 0 || minor.Compare(last) > 0 {
			continue // The cluster already runs this minor version, or the plan is malformed.
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
// patch version. It has the suffix of the running version, because a vendor adds its suffix to each version, and a
// kubeVersion without a prerelease excludes such versions. If the user names a suffix, that suffix applies.
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
