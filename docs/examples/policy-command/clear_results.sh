#!/bin/sh
# A policy for context-tui: above a share of the window, clear all tool results but the newest ones. It needs jq.
exec jq --unbuffered --compact-output --null-input '
  {protocol: 1, name: "clear-results", about: "example: clear old tool results", params: {
    share: {default: 0.5, min: 0.01, max: 1, unit: "of window", about: "size at which it acts"},
    keep: {default: 3, min: 0, max: 1000, unit: "results", about: "newest results that are kept"}}} as $description
  | foreach inputs as $question ({};
      if $question.type == "describe" then .answer = $description else
        if $question.reset then {params: $question.params, results: []} else . end
        | .results += [$question.messages[] | .id as $id | .content | to_entries[]
            | select(.value.type == "tool_result") | {clear: $id, block: .key, text: "[cleared]"}]
        | if $question.believed_tokens < .params.share * $question.window then .answer = {} else
            ([(.results | length) - .params.keep, 0] | max) as $count
            | .answer = {edits: .results[:$count]} | .results = .results[$count:]
          end
      end;
      .answer)'
