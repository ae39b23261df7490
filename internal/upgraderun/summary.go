// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgraderun

import (
	"fmt"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

const (
	// maxNamedFindings is the largest number of findings in a summary.
	maxNamedFindings = 2

	// maxFinding is the longest message of a finding in a summary, in bytes. So the text about what to do has room after
	// it.
	maxFinding = 300
)

// Summary describes the result of a check for a version in at most a thousand bytes: the version of the add-on, and the
// first problems with what the user can do. hide removes secrets from a text. Summary calls hide before it cuts off a
// text, because a part of a secret may not be recognized.
func (r *Result) Summary(version string, hide func(string) string) string {
	with := ""
	if r.Chart != "" {
		with = fmt.Sprintf(" with version %s of the add-on", apiutil.Truncate(hide(r.Chart), maxFinding))
	}
	todo := r.ToDo()
	switch {
	case len(r.Steps) == 0:
		return fmt.Sprintf("The cluster runs %s already, so the upgrade to %s removes no API", r.From, version)
	case len(todo) == 0:
		return fmt.Sprintf("The release is ready for Kubernetes %s%s", version, with)
	}
	var texts []string
	for i := range todo[:min(len(todo), maxNamedFindings)] {
		texts = append(texts, fmt.Sprintf("from %s on: %s; what to do: %s", todo[i].Step,
			apiutil.Truncate(hide(todo[i].Message), maxFinding), hide(todo[i].WayOut)))
	}
	text := fmt.Sprintf("The release is not ready for Kubernetes %s%s: %s", version, with, strings.Join(texts, ". Also "))
	if more := len(todo) - len(texts); more > 0 {
		text += fmt.Sprintf(". kubectl helmop upgrade-check --to %s shows %s", version,
			plural.Count(more, "more problem", "more problems"))
	}
	return text
}
