// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
)

var (
	// ErrUnhealthy is the result of "status --exit-code" if something is unhealthy. It has no message for users.
	ErrUnhealthy = errors.New("something is unhealthy")

	// ErrUsage is wrapped by errors about invalid arguments.
	ErrUsage = errors.New("invalid arguments")

	// ErrDiffers is the result of "diff" and "preview" if something would change. It has no message for users.
	ErrDiffers = errors.New("something would change")

	// ErrResultFailed is wrapped by errors of commands for which exit code 1 is a result: "diff",
	// "status --exit-code" and "preview". It means that there is no result.
	ErrResultFailed = errors.New("there is no result")
)

// textError is an error with its own text. The wrapped error says of what kind it is.
type textError struct {
	text string
	err  error
}

func (e *textError) Error() string { return e.text }

func (e *textError) Unwrap() error { return e.err }

// WithText returns an error with another text that wraps err.
func WithText(text string, err error) error { return &textError{text, err} }

// Usagef returns an error about invalid arguments.
func Usagef(format string, args ...any) error {
	return &textError{fmt.Sprintf(format, args...), ErrUsage}
}

// NoResult returns the error of a command for which exit code 1 is a result, if there is no result. It keeps the text
// of err.
func NoResult(err error) error { return WithText(err.Error(), errors.Join(ErrResultFailed, err)) }

// Args requires between least and most arguments. A negative most means no limit.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return Usagef("wrong number of arguments: got %d; usage: %s; see %q",
			len(args), cmd.UseLine(), cmd.CommandPath()+" --help")
	}
}

// Explain returns an error with a text in plain words for an error of the API server. It wraps the error.
func Explain(err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case clientcmd.IsEmptyConfig(err):
		return &textError{"no management cluster is configured: set --kubeconfig, --context or KUBECONFIG", err}
	case IsKindMissing(err):
		return &textError{"HelmOp is not installed in this cluster: the API server does not serve all kinds of " +
			"addons.cluster.x-k8s.io/v1alpha1; check --context", err}
	case apierrors.IsForbidden(err) && errors.As(err, &status):
		_, cause, ok := strings.Cut(status.Status().Message, "forbidden: ")
		if !ok {
			cause = status.Status().Message
		}
		return &textError{fmt.Sprintf("access denied: %s. Ask an administrator of the management cluster for this right",
			strings.TrimSuffix(cause, ".")), err}
	case apierrors.IsUnauthorized(err):
		return &textError{"access denied: the API server of the management cluster refuses the credentials", err}
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "strict decoding error: unknown field"):
		return &textError{fmt.Sprintf("the CRDs of HelmOp in this cluster do not have all fields of the object: %v; use "+
			"kubectl helmop of the manager's version, or upgrade HelmOp", err), err}
	case apierrors.IsConflict(err):
		return &textError{"the object changed at the same time, several times in a row; repeat the command", err}
	default:
		return err
	}
}

// conflictBackoff takes about 10 seconds in total. During a rollout, the manager writes the status of a HelmOp several
// times per second. Each write causes a conflict for a change that was decided before.
var conflictBackoff = wait.Backoff{Steps: 11, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1}

// RetryOnConflict repeats change while its error is a conflict, for at most about 10 seconds. change must read the
// object and decide again each time.
func RetryOnConflict(change func() error) error {
	return retry.RetryOnConflict(conflictBackoff, change)
}

// IsKindMissing reports whether an error of an API server means that it does not serve the kind.
func IsKindMissing(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// DryRun is the value of --dry-run.
type DryRun string

const (
	dryRunNone DryRun = "none"

	// DryRunServer makes the API server check a request without storing it.
	DryRunServer DryRun = "server"
)

// Add adds the flag.
func (d *DryRun) Add(flags *pflag.FlagSet) {
	flags.StringVar((*string)(d), "dry-run", string(dryRunNone),
		"server: the API server checks the request and stores nothing. none: the request is stored.")
}

// Validate checks the value.
func (d *DryRun) Validate() error {
	if *d != dryRunNone && *d != DryRunServer {
		return Usagef("--dry-run %q is unknown; use server or none", string(*d))
	}
	return nil
}
