"""The outside of a drill: real processes, a scratch folder, plain SQL. See `core/operations/drill`.

Nothing here outlives the drill. A process dies with the thread that started it, by
`PR_SET_PDEATHSIG`, also where the drill is killed by SIGKILL; the folder of a killed drill is
removed by the next one on this host, which finds that nobody has it locked any more.
"""
