class Endpoint:
    name = "acme"
    required_tasks = None

    async def attach_router(self, app):  # fault: async-mismatch
        self.app = app

    def init_state(self, engine_client, state, args):  # fault: async-mismatch
        state.acme = engine_client
