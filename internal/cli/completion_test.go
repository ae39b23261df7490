// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	b := &bed{T: t}
	for name, tc := range map[string]struct{ args, want []string }{
		"commands":          {[]string{""}, []string{"push", "bootstrap", "completion"}},
		"a command's begin": {[]string{"bootstrap", ""}, []string{"oci"}},
		"flags":             {[]string{"bootstrap", "oci", "--cluster-"}, []string{"--cluster-path", "--cluster-url"}},
		"values":            {[]string{"push", "--format", ""}, []string{"HelmChart", "Flux"}},
	} {
		var got []string
		for line := range strings.Lines(b.okBare(append([]string{"__complete"}, tc.args...)...)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		for _, want := range tc.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %q has no %s", name, got, want)
			}
		}
	}
}

// TestCompletionScripts checks that the scripts have the names that people and kubectl use for the program.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	b := &bed{T: t}
	for shell, want := range map[string]string{
		"kubectl": "#!/bin/sh\nexec kubectl-helmop __complete \"$@\"\n",
		"bash":    "__start_kubectl-helmop kubectl-helmop\n",
		"zsh":     "#compdef kubectl-helmop\n",
	} {
		if got := b.okBare("completion", shell); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", shell, want, got)
		}
	}
	if got := b.okBare("push", "--help"); !strings.Contains(got, "\n  kubectl helmop push DIR|FILE|CHART") {
		t.Errorf("%s", got)
	}
}

// TestProgramNames checks that the texts have the name that users type.
func TestProgramNames(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"/usr/bin/kubectl-helmop": "kubectl helmop", "clusterctl-helmop.exe": "clusterctl helmop", "other": "kubectl helmop",
	} {
		var out bytes.Buffer
		code := RunAs(t.Context(), program, []string{"rollout", "promote", "--help"}, Streams{Out: &out, ErrOut: &out})
		for _, text := range []string{"\n  " + want + " rollout promote HELMOP [flags]\n", "\n  " + want + " rollout promote calico\n"} {
			if code != exit.Done || !strings.Contains(out.String(), text) {
				t.Errorf("%s: no %q in\n%s", program, text, out.String())
			}
		}
	}
}

func TestExitCodesOfFleet(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "addons.cluster.x-k8s.io", Resource: "helmops"}
	for _, tc := range []struct {
		err  error
		want int
	}{
		{kube.ErrUnhealthy, exit.Failed},
		{apierrors.NewNotFound(resource, "calico"), exit.NotFound},
		{apierrors.NewForbidden(resource, "calico", nil), exit.Denied},
		{apierrors.NewUnauthorized("no"), exit.Denied},
		{apierrors.NewServiceUnavailable("busy"), exit.Unreachable},
		{apierrors.NewTimeoutError("slow", 1), exit.Unreachable},
		{apierrors.NewTooManyRequests("many", 1), exit.Unreachable},
		{apierrors.NewConflict(resource, "calico", errors.New("changed")), exit.Failed},
		{errors.Join(kube.ErrResultFailed), exit.Usage},
		{&url.Error{Op: "Get", Err: errors.New("connection refused")}, exit.Unreachable},
		{&url.Error{Op: "Get", Err: context.DeadlineExceeded}, exit.Unreachable},
		{&url.Error{Op: "Get", Err: context.Canceled}, exit.Failed},
	} {
		if got := exit.Code(tc.err); got != tc.want {
			t.Errorf("%v: got %d, want %d", tc.err, got, tc.want)
		}
	}
	var out bytes.Buffer
	if code := Run(t.Context(), []string{"status", "-o", "xml"}, Streams{Out: &out, ErrOut: &out}); code != exit.Usage {
		t.Errorf("got %d: %s", code, out.String())
	}
}
