// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apilifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// Version is a minor version of Kubernetes.
type Version struct{ Major, Minor int }

func versionOf(major, minor int) Version { return Version{major, minor} }

const (
	// MaxSteps is the number of minor versions that an upgrade may have.
	MaxSteps = 10

	// maxNumber is the largest major or minor version that ParseVersion accepts. Larger numbers do not fit into some of
	// the types that hold versions.
	maxNumber = 9999
)

// ErrTooManySteps means that an upgrade has more than MaxSteps minor versions.
var ErrTooManySteps = errors.New("too many minor versions in one upgrade")

// ParseVersion reads a version of Kubernetes, with or without a "v", a patch version, and parts that vendors append.
func ParseVersion(text string) (Version, error) {
	parsed, err := utilversion.ParseGeneric(text)
	if err != nil || parsed.Major() > maxNumber || parsed.Minor() > maxNumber {
		return Version{}, fmt.Errorf("%q is not a version of Kubernetes; want a version such as v1.37", text)
	}
	return Version{int(parsed.Major()), int(parsed.Minor())}, nil
}

// ofKubernetes matches the prerelease part of versions of Kubernetes itself.
var ofKubernetes = regexp.MustCompile(`^(alpha|beta|rc)\.`)

// SuffixOf returns the part that a vendor appends to a version of Kubernetes: "-eks-1234567" of v1.35.1-eks-1234567,
// and "+k3s1" of v1.34.1+k3s1. It is empty if the version has no such part. A prerelease of Kubernetes itself has none.
func SuffixOf(version string) string {
	parsed, err := utilversion.ParseSemantic(version)
	if err != nil {
		return ""
	}
	var suffix string
	if prerelease := parsed.PreRelease(); prerelease != "" && !ofKubernetes.MatchString(prerelease) {
		suffix = "-" + prerelease
	}
	if build := parsed.BuildMetadata(); build != "" {
		suffix += "+" + build
	}
	return suffix
}

// String returns the version in the form v1.37.
func (v Version) String() string { return fmt.Sprintf("v%d.%d", v.Major, v.Minor) }

// IsZero reports whether the version is not set.
func (v Version) IsZero() bool { return v == Version{} }

// Compare returns a negative number if the version is older than the other one, and a positive number if it is newer.
func (v Version) Compare(other Version) int {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor))
}

// StepsTo returns the minor versions after this version, up to the target, in ascending order. Cluster API upgrades a
// control plane by one minor version at a time. A new major version is one step. The result is empty if the target is
// not newer. The error is ErrTooManySteps if there are more than MaxSteps.
func (v Version) StepsTo(target Version) ([]Version, error) {
	switch {
	case v.Compare(target) >= 0:
		return nil, nil
	case v.Major != target.Major:
		return []Version{target}, nil
	case target.Minor-v.Minor > MaxSteps:
		return nil, fmt.Errorf("%s is more than %d minor versions newer than %s, which the cluster runs: %w", target,
			MaxSteps, v, ErrTooManySteps)
	}
	var steps []Version
	for minor := v.Minor + 1; minor <= target.Minor; minor++ {
		steps = append(steps, Version{v.Major, minor})
	}
	return steps, nil
}

// apiModule is the module with the types of the APIs of Kubernetes.
const apiModule = "k8s.io/api"

// KnownVersion returns the version of Kubernetes that the program was built with: v0.37.2 of k8s.io/api is v1.37. For
// later versions, the modules have only the plans of the project. The result is zero if the program has no list of its
// modules, as in tests.
func KnownVersion() Version {
	if info, ok := debug.ReadBuildInfo(); ok {
		return versionIn(info.Deps)
	}
	return Version{}
}

func versionIn(modules []*debug.Module) Version {
	for _, module := range modules {
		if parsed, err := utilversion.ParseGeneric(module.Version); err == nil && module.Path == apiModule {
			return Version{1, int(parsed.Minor())}
		}
	}
	return Version{}
}
